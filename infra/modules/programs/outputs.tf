output "environment" {
  description = "Program to its environment variables."
  value       = local.environment
}

output "statements" {
  description = "Program to the statements of its role's policy."
  value       = local.statements
}

output "environment" {
  description = "Map from program to its environment variables."
  value       = local.environment
}

output "statements" {
  description = "Map from program to the IAM statements of its role."
  value       = local.statements
}

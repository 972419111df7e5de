output "arns" {
  description = "Map from program to the ARN of its secret."
  value       = { for program, secret in aws_secretsmanager_secret.this : program => secret.arn }
}

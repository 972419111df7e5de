output "name" {
  description = "Name of the function."
  value       = aws_lambda_function.this.function_name
}

output "arn" {
  description = "ARN of the function."
  value       = aws_lambda_function.this.arn
}

output "invoke_arn" {
  description = "Invoke ARN for API Gateway."
  value       = aws_lambda_function.this.invoke_arn
}

output "role_name" {
  description = "Name of the execution role."
  value       = aws_iam_role.this.name
}

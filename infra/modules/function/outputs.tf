output "name" {
  description = "The function's name."
  value       = aws_lambda_function.this.function_name
}

output "arn" {
  description = "The function's ARN."
  value       = aws_lambda_function.this.arn
}

output "invoke_arn" {
  description = "How API Gateway calls it."
  value       = aws_lambda_function.this.invoke_arn
}

output "role_name" {
  description = "Its role."
  value       = aws_iam_role.this.name
}

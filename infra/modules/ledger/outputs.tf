output "name" {
  description = "Name of the table, for COUNTERSIGN_TABLE."
  value       = aws_dynamodb_table.this.name
}

output "arn" {
  description = "ARN of the table."
  value       = aws_dynamodb_table.this.arn
}

output "index_arns" {
  description = "ARN of each index, so that no policy needs `index/*`."
  value       = { for name, _ in local.indexes : name => "${aws_dynamodb_table.this.arn}/index/${name}" }
}

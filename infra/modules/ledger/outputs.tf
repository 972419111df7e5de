output "name" {
  description = "The table's name: COUNTERSIGN_TABLE."
  value       = aws_dynamodb_table.this.name
}

output "arn" {
  description = "The table's ARN."
  value       = aws_dynamodb_table.this.arn
}

output "index_arns" {
  description = "The ARN of each index, one by one, so that no policy needs `index/*`."
  value       = { for name, _ in local.indexes : name => "${aws_dynamodb_table.this.arn}/index/${name}" }
}

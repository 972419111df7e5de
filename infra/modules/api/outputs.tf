output "url" {
  description = "Where the API is. A source posts to <url>/webhook/<source>/<tenant>."
  value       = aws_apigatewayv2_api.this.api_endpoint
}

output "id" {
  description = "The API's id."
  value       = aws_apigatewayv2_api.this.id
}

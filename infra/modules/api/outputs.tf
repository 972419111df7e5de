output "url" {
  description = "Base URL of the API. Sources send webhooks to <url>/webhook/<source>/<tenant>."
  value       = aws_apigatewayv2_api.this.api_endpoint
}

output "id" {
  description = "Id of the API."
  value       = aws_apigatewayv2_api.this.id
}

output "url" {
  description = "Base URL of the endpoints <url>/webhook/<source>/<tenant>, <url>/slack/interactions/<tenant> and <url>/slack/commands/<tenant>."
  value       = module.api.url
}

output "secret_arns" {
  description = "ARN of the secret of each program."
  value       = module.secrets.arns
}

output "table" {
  description = "Name of the ledger table."
  value       = module.ledger.name
}

output "evidence_bucket" {
  description = "Name of the bucket for evidence bundles."
  value       = module.evidence.name
}

output "server_dns_name" {
  description = "DNS name of the load balancer of the server, if there is one. Point the domain name of the certificate to it."
  value       = one(module.server[*].dns_name)
}

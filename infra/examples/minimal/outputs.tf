output "url" {
  description = "Where the doors are: <url>/webhook/<source>/<tenant>, <url>/slack/interactions/<tenant>, <url>/slack/commands/<tenant>."
  value       = module.api.url
}

output "secret_arns" {
  description = "Where each program's secrets have to be put."
  value       = module.secrets.arns
}

output "table" {
  description = "The ledger's table."
  value       = module.ledger.name
}

output "evidence_bucket" {
  description = "Where bundles are."
  value       = module.evidence.name
}

output "server_dns_name" {
  description = "The balancer of the API and the console, if there is a server. Point the name that the certificate is for to it."
  value       = one(module.server[*].dns_name)
}

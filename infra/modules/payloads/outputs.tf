output "name" {
  description = "The bucket's name: COUNTERSIGN_PAYLOADS."
  value       = module.bucket.name
}

output "arn" {
  description = "The bucket's ARN."
  value       = module.bucket.arn
}

output "name" {
  description = "Name of the bucket, for COUNTERSIGN_PAYLOADS."
  value       = module.bucket.name
}

output "arn" {
  description = "ARN of the bucket."
  value       = module.bucket.arn
}

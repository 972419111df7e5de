output "name" {
  description = "Name of the bucket, for COUNTERSIGN_EVIDENCE."
  value       = module.bucket.name
}

output "arn" {
  description = "ARN of the bucket."
  value       = module.bucket.arn
}

output "keep_days" {
  description = "Retention of an object in days, for COUNTERSIGN_EVIDENCE_RETENTION_DAYS."
  value       = var.keep_days
}

output "lock_mode" {
  description = "Object Lock mode, for COUNTERSIGN_EVIDENCE_RETENTION_MODE."
  value       = var.lock_mode
}

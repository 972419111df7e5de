output "name" {
  description = "The bucket's name: COUNTERSIGN_EVIDENCE."
  value       = module.bucket.name
}

output "arn" {
  description = "The bucket's ARN."
  value       = module.bucket.arn
}

output "keep_days" {
  description = "How long an object is locked: COUNTERSIGN_EVIDENCE_KEEP_DAYS."
  value       = var.keep_days
}

output "lock_mode" {
  description = "Against whom an object is locked: COUNTERSIGN_EVIDENCE_LOCK."
  value       = var.lock_mode
}

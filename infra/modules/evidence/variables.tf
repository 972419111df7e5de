variable "name" {
  description = "Name of the bucket. It must be globally unique."
  type        = string
}

variable "keep_days" {
  description = "Retention of an object in days, counted from its creation."
  type        = number
  default     = 365

  validation {
    condition     = var.keep_days >= 1 && var.keep_days <= 36500 && floor(var.keep_days) == var.keep_days
    error_message = "The retention must be 1 to 36500 days."
  }
}

variable "lock_mode" {
  description = "Object Lock mode. GOVERNANCE: users with s3:BypassGovernanceRetention can delete objects. COMPLIANCE: no user can delete objects or shorten the retention."
  type        = string
  default     = "GOVERNANCE"

  validation {
    condition     = contains(["GOVERNANCE", "COMPLIANCE"], var.lock_mode)
    error_message = "The mode must be GOVERNANCE or COMPLIANCE."
  }
}

variable "archive_after_days" {
  description = "Days after which an object moves to Glacier Instant Retrieval. It stays readable without delay."
  type        = number
  default     = 90

  validation {
    condition     = var.archive_after_days >= 30
    error_message = "The value must be at least 30 days; an earlier transition costs more than it saves."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the objects. If null, the AWS managed key of S3 is used."
  type        = string
  default     = null
}

variable "access_log_bucket" {
  description = "Name of an existing bucket for server access logs. Null disables them."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags for the bucket."
  type        = map(string)
  default     = {}
}

variable "name" {
  description = "The bucket's name, which no other bucket in the world may have."
  type        = string
}

variable "keep_days" {
  description = "How long an object cannot be deleted, counted from when it was written."
  type        = number
  default     = 365

  validation {
    condition     = var.keep_days >= 1 && var.keep_days <= 36500 && floor(var.keep_days) == var.keep_days
    error_message = "S3 locks for 1 to 36500 whole days."
  }
}

variable "lock_mode" {
  description = "GOVERNANCE: who has s3:BypassGovernanceRetention can unlock. COMPLIANCE: nobody can, and nobody can shorten it."
  type        = string
  default     = "GOVERNANCE"

  validation {
    condition     = contains(["GOVERNANCE", "COMPLIANCE"], var.lock_mode)
    error_message = "S3 knows GOVERNANCE and COMPLIANCE."
  }
}

variable "archive_after_days" {
  description = "After how many days an object moves to cheaper storage. It can still be read at once."
  type        = number
  default     = 90

  validation {
    condition     = var.archive_after_days >= 30
    error_message = "Moving sooner than after 30 days costs more than it saves."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the objects; AWS's own for S3 if there is none."
  type        = string
  default     = null
}

variable "access_log_bucket" {
  description = "A bucket of yours that is to hold a line for each request; none if there is none."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the bucket."
  type        = map(string)
  default     = {}
}

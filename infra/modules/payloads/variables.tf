variable "name" {
  description = "Name of the bucket. It must be globally unique."
  type        = string
}

variable "keep_days" {
  description = "Days after its last write at which a payload expires. A run that is still active then loses its payload, so choose a value longer than the longest run."
  type        = number
  default     = 180

  validation {
    condition     = var.keep_days >= 30 && floor(var.keep_days) == var.keep_days
    error_message = "Payloads must be retained for at least 30 days, because a run may wait for an approval for weeks."
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

variable "name" {
  description = "Name of the bucket. It must be globally unique."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.name))
    error_message = "The name must have 3 to 63 lower-case letters, digits and hyphens."
  }
}

variable "object_lock" {
  description = "Whether Object Lock is enabled. It cannot be changed after the bucket is created."
  type        = bool
  default     = false
}

variable "takes_balancer_logs" {
  description = "Whether load balancers of the account write access logs to this bucket. If so, objects are encrypted with SSE-S3."
  type        = bool
  default     = false
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the objects. If null, the AWS managed key of S3 is used."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || !var.takes_balancer_logs
    error_message = "Load balancers cannot write access logs with a customer managed key."
  }
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

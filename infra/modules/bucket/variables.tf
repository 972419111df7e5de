variable "name" {
  description = "The bucket's name, which no other bucket in the world may have."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.name))
    error_message = "A bucket's name is 3 to 63 lower-case letters, digits and dashes."
  }
}

variable "object_lock" {
  description = "Whether objects can be locked. It cannot be changed once the bucket is there."
  type        = bool
  default     = false
}

variable "takes_balancer_logs" {
  description = "Whether load balancers of the account write their access logs here; then S3's own key encrypts them."
  type        = bool
  default     = false
}

variable "kms_key_arn" {
  description = "The customer key of the objects; AWS's own for S3 if there is none."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || !var.takes_balancer_logs
    error_message = "A load balancer cannot write under a customer key."
  }
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

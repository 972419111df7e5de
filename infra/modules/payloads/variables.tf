variable "name" {
  description = "The bucket's name, which no other bucket in the world may have."
  type        = string
}

variable "keep_days" {
  description = "How many days after it was last put a payload is deleted, to a day. A run that is still open then loses it: keep them longer than runs last."
  type        = number
  default     = 180

  validation {
    condition     = var.keep_days >= 30 && floor(var.keep_days) == var.keep_days
    error_message = "A run may wait for people for weeks; keep payloads for 30 days or more."
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

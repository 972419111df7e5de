variable "name" {
  description = "Name of the table."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{3,255}$", var.name))
    error_message = "The name must have 3 to 255 letters, digits, `_`, `.` and `-`."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the table. If null, the AWS managed key of DynamoDB is used."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether deletion protection is enabled. To delete the table, set this to false and apply first."
  type        = bool
  default     = true
}

variable "alarm_topic_arns" {
  description = "ARNs of the SNS topics that receive alarm notifications."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags for all resources of this module."
  type        = map(string)
  default     = {}
}

variable "name" {
  description = "The table's name."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{3,255}$", var.name))
    error_message = "A table's name is 3 to 255 letters, digits, `_`, `.` and `-`."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the table; AWS's own for DynamoDB if there is none."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether the table refuses to be deleted. Turn it off, and apply, before destroying it on purpose."
  type        = bool
  default     = true
}

variable "alarm_topic_arns" {
  description = "Topics that alarms speak to."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of everything made here."
  type        = map(string)
  default     = {}
}

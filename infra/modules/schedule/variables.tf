variable "name" {
  description = "Name of the schedule."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{1,55}$", var.name))
    error_message = "The name must have 1 to 55 letters, digits, `_`, `.` and `-`."
  }
}

variable "function_name" {
  description = "Name of the function, for metrics."
  type        = string
}

variable "function_arn" {
  description = "ARN of the function."
  type        = string
}

variable "rate" {
  description = "Schedule expression."
  type        = string
  default     = "rate(1 minute)"

  validation {
    condition     = can(regex("^rate\\([0-9]+ minutes?\\)$", var.rate))
    error_message = "The expression must look like rate(1 minute)."
  }
}

variable "silence_minutes" {
  description = "Minutes without an invocation that raise the alarm."
  type        = number
  default     = 5

  validation {
    condition     = var.silence_minutes >= 2 && var.silence_minutes <= 60
    error_message = "The value must be 2 to 60 minutes."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the schedule. If null, an AWS owned key is used."
  type        = string
  default     = null
}

variable "alarm_topic_arns" {
  description = "ARNs of the SNS topics that receive alarm notifications."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags for all resources of this module that support tags."
  type        = map(string)
  default     = {}
}

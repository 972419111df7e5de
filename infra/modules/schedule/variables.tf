variable "name" {
  description = "The schedule's name."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{1,55}$", var.name))
    error_message = "A name is 1 to 55 letters, digits, `_`, `.` and `-`."
  }
}

variable "function_name" {
  description = "The function's name, as its metrics know it."
  type        = string
}

variable "function_arn" {
  description = "The function that is called."
  type        = string
}

variable "rate" {
  description = "How often it is called."
  type        = string
  default     = "rate(1 minute)"

  validation {
    condition     = can(regex("^rate\\([0-9]+ minutes?\\)$", var.rate))
    error_message = "This looks like rate(1 minute)."
  }
}

variable "silence_minutes" {
  description = "After how many minutes without a call somebody is told."
  type        = number
  default     = 5

  validation {
    condition     = var.silence_minutes >= 2 && var.silence_minutes <= 60
    error_message = "This is 2 to 60 minutes."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the schedule; AWS's own if there is none."
  type        = string
  default     = null
}

variable "alarm_topic_arns" {
  description = "Topics that alarms speak to."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of everything made here that can have some."
  type        = map(string)
  default     = {}
}

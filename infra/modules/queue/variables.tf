variable "name" {
  description = "Name of the queue. Its dead-letter queue is `<name>-dead`."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,75}$", var.name)) && !endswith(var.name, "-dead")
    error_message = "The name must have 1 to 75 letters, digits, `_` and `-`, and must not end in `-dead`."
  }
}

variable "receives_max" {
  description = "Number of deliveries before a message moves to the dead-letter queue. The embedded store uses the same number, RECEIVES_MAX."
  type        = number
  default     = 20

  validation {
    # A worker that postpones a message replaces it after POSTPONED_MAX deliveries (worker/src).
    condition     = var.receives_max >= 10 && var.receives_max <= 1000
    error_message = "The number of deliveries must be 10 to 1000. A worker may postpone a message up to six times, for example while another worker holds the step or an external system is down. A lower limit would move valid messages to the dead-letter queue."
  }
}

variable "visibility_seconds" {
  description = "Default visibility timeout in seconds. Workers set their own and extend it with their lease."
  type        = number
  default     = 60

  validation {
    condition     = var.visibility_seconds >= 1 && var.visibility_seconds <= 43200
    error_message = "The visibility timeout must be between 1 second and 12 hours."
  }
}

variable "age_alarm_seconds" {
  description = "Age of the oldest message in seconds that raises the alarm."
  type        = number
  default     = 300

  validation {
    condition     = var.age_alarm_seconds >= 60
    error_message = "The age must be at least 60 seconds, the period of the metric."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for both queues. If null, SSE-SQS is used."
  type        = string
  default     = null
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

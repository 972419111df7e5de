variable "name" {
  description = "The queue's name; its dead letters are in `<name>-dead`."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,75}$", var.name)) && !endswith(var.name, "-dead")
    error_message = "A queue's name is 1 to 75 letters, digits, `_` and `-`, and does not end in `-dead`."
  }
}

variable "receives_max" {
  description = "How often a message is delivered before it is put aside; the same as RECEIVES_MAX of the embedded store."
  type        = number
  default     = 20

  validation {
    # A worker that lets a message come back later sends it anew after POSTPONED_MAX deliveries (worker/src/walker.rs).
    condition     = var.receives_max >= 10 && var.receives_max <= 1000
    error_message = "Deliver a message 10 times or more: one for a step that somebody holds, or for a system that is down, comes too early up to six times before a worker replaces it, and with fewer it would be put aside with nothing wrong. SQS counts to 1000."
  }
}

variable "visibility_seconds" {
  description = "How long a message is hidden if whoever received it does not say. Workers do, and extend it with their lease."
  type        = number
  default     = 60

  validation {
    condition     = var.visibility_seconds >= 1 && var.visibility_seconds <= 43200
    error_message = "SQS hides a message for 1 s to 12 h."
  }
}

variable "age_alarm_seconds" {
  description = "At which age of its oldest message the queue is thought to be stuck."
  type        = number
  default     = 300

  validation {
    condition     = var.age_alarm_seconds >= 60
    error_message = "The metric is measured once a minute; less than 60 s cannot be told."
  }
}

variable "kms_key_arn" {
  description = "The customer key of both queues; SQS's own if there is none."
  type        = string
  default     = null
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

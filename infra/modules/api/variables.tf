variable "name" {
  description = "The API's name."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9-]{1,64}$", var.name))
    error_message = "A name is 1 to 64 letters, digits and dashes."
  }
}

variable "webhook" {
  description = "The function that takes what ServiceNow, GitHub and others send."
  type        = object({ name = string, invoke_arn = string })
}

variable "slack" {
  description = "The function that takes Slack's clicks and commands."
  type        = object({ name = string, invoke_arn = string })
}

variable "requests_per_second" {
  description = "How many requests a second are let through, for all routes together."
  type        = number
  default     = 100

  validation {
    condition     = var.requests_per_second > 0 && var.requests_per_second <= 10000
    error_message = "An account is given up to 10000 requests a second."
  }
}

variable "burst" {
  description = "How many requests are let through at once."
  type        = number
  default     = 200

  validation {
    condition     = var.burst > 0 && var.burst <= 5000
    error_message = "An account is given bursts of up to 5000 requests."
  }
}

variable "log_retention_days" {
  description = "How long the access log is kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or for five to ten years."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the access log; CloudWatch's own if there is none."
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

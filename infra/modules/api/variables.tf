variable "name" {
  description = "Name of the API."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9-]{1,64}$", var.name))
    error_message = "The name must have 1 to 64 letters, digits and hyphens."
  }
}

variable "webhook" {
  description = "The Lambda function for webhooks from ServiceNow, GitHub and other sources."
  type        = object({ name = string, invoke_arn = string })
}

variable "slack" {
  description = "The Lambda function for interactions and commands from Slack."
  type        = object({ name = string, invoke_arn = string })
}

variable "requests_per_second" {
  description = "Rate limit in requests per second for all routes together."
  type        = number
  default     = 100

  validation {
    condition     = var.requests_per_second > 0 && var.requests_per_second <= 10000
    error_message = "The rate limit must be at most 10000, the default quota of an account."
  }
}

variable "burst" {
  description = "Burst limit in requests."
  type        = number
  default     = 200

  validation {
    condition     = var.burst > 0 && var.burst <= 5000
    error_message = "The burst limit must be at most 5000, the default quota of an account."
  }
}

variable "log_retention_days" {
  description = "Retention of the access log in days."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "The retention must be a value that CloudWatch Logs supports: 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or five to ten years."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the access log. If null, CloudWatch Logs encrypts it with its own key."
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

variable "name" {
  description = "Name of the budget."
  type        = string
}

variable "limit_usd" {
  description = "Monthly limit in USD. Notifications are sent at 80 % of the limit, and when the forecast exceeds the limit."
  type        = number

  validation {
    condition     = var.limit_usd > 0
    error_message = "The limit must be greater than zero."
  }
}

variable "tag_filter" {
  description = "Cost allocation tag that limits the budget to tagged resources. The tag must be activated for cost allocation. If null, the budget covers the whole account."
  type        = object({ key = string, value = string })
  default     = null
}

variable "alarm_topic_arns" {
  description = "ARNs of the SNS topics that receive notifications."
  type        = list(string)
  default     = []
}

variable "emails" {
  description = "E-mail addresses that receive notifications in addition to the topics."
  type        = list(string)
  default     = []

  validation {
    condition     = length(var.emails) + length(var.alarm_topic_arns) > 0
    error_message = "At least one topic or e-mail address is required."
  }
}

variable "tags" {
  description = "Tags for the budget."
  type        = map(string)
  default     = {}
}

variable "name" {
  description = "The budget's name."
  type        = string
}

variable "limit_usd" {
  description = "What a month may cost. People are told at 80 % of it, and when it is expected to be passed."
  type        = number

  validation {
    condition     = var.limit_usd > 0
    error_message = "This is a sum of money."
  }
}

variable "tag_filter" {
  description = "Counts only what has this tag, once the tag is activated for cost allocation; everything in the account if there is none."
  type        = object({ key = string, value = string })
  default     = null
}

variable "alarm_topic_arns" {
  description = "Topics that are told."
  type        = list(string)
  default     = []
}

variable "emails" {
  description = "People who are told beside those on the topics."
  type        = list(string)
  default     = []

  validation {
    condition     = length(var.emails) + length(var.alarm_topic_arns) > 0
    error_message = "A budget that tells nobody is none: name a topic or an address."
  }
}

variable "tags" {
  description = "Tags of the budget."
  type        = map(string)
  default     = {}
}

variable "name" {
  description = "Name of the deployment. The topic is `<name>-alarms`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,40}$", var.name))
    error_message = "The name must have 2 to 41 lower-case letters, digits and hyphens, and start with a letter."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the topic. Required, because alarms cannot publish to a topic with the AWS managed key of SNS."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:kms:", var.kms_key_arn))
    error_message = "The key must be an ARN."
  }
}

variable "emails" {
  description = "E-mail addresses of the subscribers. Each address must confirm its subscription."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "Each entry must be an e-mail address."
  }
}

variable "tags" {
  description = "Tags for the topic."
  type        = map(string)
  default     = {}
}

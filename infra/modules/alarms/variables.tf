variable "name" {
  description = "What the deployment is called; the topic is `<name>-alarms`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,40}$", var.name))
    error_message = "A name is 2 to 41 lower-case letters, digits and dashes, and begins with a letter."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the topic. AWS's own key for SNS does not let alarms publish, so there is no default."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:kms:", var.kms_key_arn))
    error_message = "A key is named by its ARN."
  }
}

variable "emails" {
  description = "Who is told. Each address has to confirm once."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "These have to be e-mail addresses."
  }
}

variable "tags" {
  description = "Tags of the topic."
  type        = map(string)
  default     = {}
}

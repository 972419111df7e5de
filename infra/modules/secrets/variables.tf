variable "name" {
  description = "What the deployment is called; a secret is `<name>/<program>`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,40}$", var.name))
    error_message = "A name is 2 to 41 lower-case letters, digits and dashes, and begins with a letter."
  }
}

variable "programs" {
  description = "The programs that have secrets of their own."
  type        = set(string)
  default     = ["webhook", "slack", "worker"]
}

variable "kms_key_arn" {
  description = "The customer key of the secrets; AWS's own for Secrets Manager if there is none."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the secrets."
  type        = map(string)
  default     = {}
}

variable "name" {
  description = "Name of the deployment. A secret is named `<name>/<program>`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,40}$", var.name))
    error_message = "The name must have 2 to 41 lower-case letters, digits and hyphens, and start with a letter."
  }
}

variable "programs" {
  description = "Programs that have a secret."
  type        = set(string)
  default     = ["webhook", "slack", "worker"]
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the secrets. If null, the AWS managed key of Secrets Manager is used."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags for the secrets."
  type        = map(string)
  default     = {}
}

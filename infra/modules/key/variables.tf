variable "name" {
  description = "What the deployment is called; the key's alias."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,40}$", var.name))
    error_message = "A name is 2 to 41 lower-case letters, digits and dashes, and begins with a letter."
  }
}

variable "region" {
  description = "Where the deployment is. CloudWatch Logs has a name of its own in each region."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "A region looks like us-east-1."
  }
}

variable "rotation_days" {
  description = "After how many days the key's material is replaced. What was encrypted before stays readable."
  type        = number
  default     = 365

  validation {
    condition     = var.rotation_days >= 90 && var.rotation_days <= 2560
    error_message = "KMS rotates every 90 to 2560 days."
  }
}

variable "tags" {
  description = "Tags of the key."
  type        = map(string)
  default     = {}
}

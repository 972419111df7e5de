variable "name" {
  description = "Name of the deployment and alias of the key."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,40}$", var.name))
    error_message = "The name must have 2 to 41 lower-case letters, digits and hyphens, and start with a letter."
  }
}

variable "region" {
  description = "AWS region of the deployment. The service principal of CloudWatch Logs contains it."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "The region must look like us-east-1."
  }
}

variable "rotation_days" {
  description = "Rotation period of the key in days. Data that was encrypted before a rotation stays readable."
  type        = number
  default     = 365

  validation {
    condition     = var.rotation_days >= 90 && var.rotation_days <= 2560
    error_message = "The rotation period must be 90 to 2560 days."
  }
}

variable "tags" {
  description = "Tags for the key."
  type        = map(string)
  default     = {}
}

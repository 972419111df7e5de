variable "name" {
  description = "Name of the function and its role."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,59}$", var.name))
    error_message = "The name must have 1 to 59 letters, digits, `_` and `-`. The limit leaves room for the suffix `-dead`."
  }
}

variable "description" {
  description = "Description of the function."
  type        = string
}

variable "package" {
  description = "Path of the zip from `cargo xtask package`, for the same architecture."
  type        = string

  validation {
    condition     = endswith(var.package, ".zip")
    error_message = "The package must be a zip: target/package/<architecture>/<function>.zip."
  }
}

variable "architecture" {
  description = "CPU architecture of the zip."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture must be arm64 or x86_64."
  }
}

variable "memory_mb" {
  description = "Memory in MB. Lambda allocates CPU in proportion to memory."
  type        = number
  default     = 256

  validation {
    condition     = var.memory_mb >= 128 && var.memory_mb <= 10240
    error_message = "The memory must be 128 to 10240 MB."
  }
}

variable "timeout_seconds" {
  description = "Timeout of an invocation in seconds."
  type        = number
  default     = 10

  validation {
    condition     = var.timeout_seconds >= 1 && var.timeout_seconds <= 900
    error_message = "The timeout must be 1 to 900 seconds."
  }
}

variable "environment" {
  description = "Environment variables. Do not put secrets here."
  type        = map(string)
  default     = {}
}

variable "statements" {
  description = "IAM statements of the role: explicit actions on explicit resources. `leading_keys` limits table access to partition keys that match these patterns."
  type = list(object({
    sid          = string
    actions      = list(string)
    resources    = list(string)
    leading_keys = optional(list(string), [])
  }))

  validation {
    condition     = alltrue([for action in flatten(var.statements[*].actions) : can(regex("^[a-z0-9-]+:[A-Za-z]+$", action))])
    error_message = "Each action must be a full name without a wildcard, such as sqs:SendMessage."
  }

  validation {
    # Object names are not known in advance, so the ARN of a bucket may end in `/*`. No other wildcard is allowed.
    condition     = alltrue([for arn in flatten(var.statements[*].resources) : can(regex("^arn:[a-z-]+:s3:::[^*?/]+/\\*$", arn)) || can(regex("^arn:[^*?]+$", arn))])
    error_message = "Each resource must be an ARN without a wildcard, or the objects of one bucket."
  }
}

variable "asynchronous" {
  description = "Whether the function is invoked asynchronously. If so, it gets a dead-letter queue."
  type        = bool
  default     = false
}

variable "reserved_concurrency" {
  description = "Reserved concurrency. -1 reserves none and uses the unreserved concurrency of the account."
  type        = number
  default     = -1

  validation {
    condition     = var.reserved_concurrency >= -1
    error_message = "The reserved concurrency must be a number of invocations, or -1."
  }
}

variable "tracing" {
  description = "Whether AWS X-Ray tracing is enabled."
  type        = bool
  default     = false
}

variable "log_retention_days" {
  description = "Retention of the log in days."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "The retention must be a value that CloudWatch Logs supports: 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or five to ten years."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the log, the environment and the dead-letter queue. If null, AWS managed keys are used."
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

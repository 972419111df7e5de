variable "name" {
  description = "The function's name, and its role's."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,59}$", var.name))
    error_message = "A function's name is 1 to 59 letters, digits, `_` and `-`, which leaves room for `-dead`."
  }
}

variable "description" {
  description = "What it is for, in a sentence."
  type        = string
}

variable "package" {
  description = "The zip that `cargo xtask package` made, for the architecture below."
  type        = string

  validation {
    condition     = endswith(var.package, ".zip")
    error_message = "A function is made from a zip: target/package/<architecture>/<function>.zip."
  }
}

variable "architecture" {
  description = "What the zip was built for."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "Lambda knows arm64 and x86_64."
  }
}

variable "memory_mb" {
  description = "How much memory it has. Lambda hands out processor time in proportion."
  type        = number
  default     = 256

  validation {
    condition     = var.memory_mb >= 128 && var.memory_mb <= 10240
    error_message = "Lambda gives 128 to 10240 MB."
  }
}

variable "timeout_seconds" {
  description = "After how long a call is ended."
  type        = number
  default     = 10

  validation {
    condition     = var.timeout_seconds >= 1 && var.timeout_seconds <= 900
    error_message = "Lambda lets a call run for 1 to 900 s."
  }
}

variable "environment" {
  description = "Its environment variables. No secret belongs here."
  type        = map(string)
  default     = {}
}

variable "statements" {
  description = "What its role may do: listed actions on listed resources. `leading_keys` limits access to a table to partition keys of these patterns."
  type = list(object({
    sid          = string
    actions      = list(string)
    resources    = list(string)
    leading_keys = optional(list(string), [])
  }))

  validation {
    condition     = alltrue([for action in flatten(var.statements[*].actions) : can(regex("^[a-z0-9-]+:[A-Za-z]+$", action))])
    error_message = "An action is written out, as in sqs:SendMessage."
  }

  validation {
    # Objects have no names yet, so a bucket's ARN may end in `/*`; nothing else may.
    condition     = alltrue([for arn in flatten(var.statements[*].resources) : can(regex("^arn:[a-z-]+:s3:::[^*?/]+/\\*$", arn)) || can(regex("^arn:[^*?]+$", arn))])
    error_message = "A resource is one ARN without a wildcard, or the objects of one bucket."
  }
}

variable "asynchronous" {
  description = "Whether it is called by something that does not wait for its answer. Such calls need a dead-letter queue."
  type        = bool
  default     = false
}

variable "reserved_concurrency" {
  description = "How many calls may run at once, reserved for it; -1: as many as the account has left."
  type        = number
  default     = -1

  validation {
    condition     = var.reserved_concurrency >= -1
    error_message = "This is a number of calls, or -1."
  }
}

variable "tracing" {
  description = "Whether AWS X-Ray traces it."
  type        = bool
  default     = false
}

variable "log_retention_days" {
  description = "How long its log is kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or for five to ten years."
  }
}

variable "kms_key_arn" {
  description = "The customer key of its log, its environment and its dead letters; AWS's own if there is none."
  type        = string
  default     = null
}

variable "alarm_topic_arns" {
  description = "Topics that alarms speak to."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of everything made here."
  type        = map(string)
  default     = {}
}

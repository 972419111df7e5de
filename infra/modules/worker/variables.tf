variable "name" {
  description = "Name of the service and its cluster."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,49}$", var.name))
    error_message = "The name must have 1 to 50 letters, digits and hyphens, and start with a letter."
  }
}

variable "region" {
  description = "AWS region of the deployment, for the log driver."
  type        = string
}

variable "image" {
  description = "Image by digest, because a tag can be moved to an image that was not reviewed."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "The image must be given by digest: repository@sha256:…"
  }
}

variable "repository_arn" {
  description = "ARN of the ECR repository of the image. Null if the image comes from a registry without authentication."
  type        = string
  default     = null
}

variable "architecture" {
  description = "CPU architecture of the image."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture must be arm64 or x86_64."
  }
}

variable "cpu" {
  description = "CPU units of a task; 1024 units are one vCPU."
  type        = number
  default     = 256

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.cpu)
    error_message = "The CPU units must be 256, 512, 1024, 2048 or 4096."
  }
}

variable "memory_mb" {
  description = "Memory of a task in MB."
  type        = number
  default     = 512

  validation {
    condition     = var.memory_mb >= 512 && var.memory_mb <= 30720
    error_message = "The memory must be 512 to 30720 MB. The valid values depend on the CPU units."
  }
}

variable "spot" {
  description = "Whether tasks run on Fargate Spot: cheaper, but interrupted with a notice of two minutes. Other workers take over the work, so no run is lost."
  type        = bool
  default     = false
}

variable "tasks" {
  description = "Minimum and maximum number of tasks."
  type        = object({ min = number, max = number })
  default     = { min = 1, max = 4 }

  validation {
    condition     = var.tasks.min >= 1 && var.tasks.max >= var.tasks.min
    error_message = "`min` must be at least 1, and `max` must not be less than `min`."
  }
}

variable "vpc_id" {
  description = "VPC of the tasks."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the tasks. Use at least two availability zones for fault tolerance."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 1
    error_message = "At least one subnet is required."
  }
}

variable "public_ip" {
  description = "Whether each task gets a public IP address. Enable it only if the subnets have no other route to the internet."
  type        = bool
  default     = false
}

variable "egress_cidr_blocks" {
  description = "CIDR blocks that tasks may connect to on port 443. ServiceNow, GitHub and Slack publish no short list of addresses."
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = alltrue([for block in var.egress_cidr_blocks : can(cidrhost(block, 0))])
    error_message = "Each entry must be a CIDR block, such as 10.0.0.0/8."
  }
}

variable "environment" {
  description = "Environment variables of the program. Do not put secrets here."
  type        = map(string)
}

variable "statements" {
  description = "IAM statements of the program's role: explicit actions on explicit resources."
  type = list(object({
    sid       = string
    actions   = list(string)
    resources = list(string)
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

variable "queue_names" {
  description = "Names of the queues for autoscaling. The keys become metric ids, so they must be lower-case letters."
  type        = map(string)

  validation {
    condition     = length(var.queue_names) > 0 && alltrue([for key in keys(var.queue_names) : can(regex("^[a-z]+$", key))])
    error_message = "At least one queue is required, and keys must be lower-case letters."
  }
}

variable "backlog_per_task" {
  description = "Number of visible messages that one task processes in about a minute."
  type        = number
  default     = 50

  validation {
    condition     = var.backlog_per_task > 0
    error_message = "The value must be a positive number of messages."
  }
}

variable "age_seconds" {
  description = "Age of the oldest message in seconds at which one task is added. Three tasks are added at twice this age."
  type        = number
  default     = 60

  validation {
    condition     = var.age_seconds >= 30
    error_message = "The age must be at least 30 s: the message of a crashed worker becomes visible again within 30 s."
  }
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
  description = "ARN of the KMS key for the log. If null, CloudWatch Logs encrypts it with its own key."
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

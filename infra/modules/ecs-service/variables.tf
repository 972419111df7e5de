variable "name" {
  description = "Name of the service and its cluster. Its roles and its log group start with it."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,49}$", var.name))
    error_message = "The name must have 1 to 50 letters, digits and hyphens, and start with a letter."
  }
}

variable "program" {
  description = "Name of the container and prefix of its log streams, such as `worker`."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+$", var.program))
    error_message = "The program must be a word of lower-case letters."
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

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture must be arm64 or x86_64."
  }
}

variable "cpu" {
  description = "CPU units of a task; 1024 units are one vCPU."
  type        = number

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.cpu)
    error_message = "The CPU units must be 256, 512, 1024, 2048 or 4096."
  }
}

variable "memory_mb" {
  description = "Memory of a task in MB."
  type        = number

  validation {
    condition     = var.memory_mb >= 512 && var.memory_mb <= 30720
    error_message = "The memory must be 512 to 30720 MB. The valid values depend on the CPU units."
  }
}

variable "tasks" {
  description = "Minimum and maximum number of tasks."
  type        = object({ min = number, max = number })

  validation {
    condition     = var.tasks.min >= 1 && var.tasks.max >= var.tasks.min
    error_message = "`min` must be at least 1, and `max` must not be less than `min`."
  }
}

variable "capacity_providers" {
  description = "Capacity providers of the cluster."
  type        = list(string)
  default     = ["FARGATE"]
}

variable "capacity_provider" {
  description = "Capacity provider of the tasks."
  type        = string
  default     = "FARGATE"

  validation {
    condition     = contains(var.capacity_providers, var.capacity_provider)
    error_message = "The cluster must have the capacity provider of the tasks."
  }
}

variable "command" {
  description = "Arguments of the program. Null for those of the image."
  type        = list(string)
  default     = null
}

variable "port" {
  description = "Port on which the program accepts connections from the load balancer. Null for none."
  type        = number
  default     = null
}

variable "health_check" {
  description = "Health check of the container, as in an ECS task definition. Null for none."
  type = object({
    command     = list(string)
    interval    = number
    timeout     = number
    retries     = number
    startPeriod = number
  })
  default = null
}

variable "stop_timeout_seconds" {
  description = "Seconds between SIGTERM and SIGKILL."
  type        = number

  validation {
    condition     = var.stop_timeout_seconds >= 2 && var.stop_timeout_seconds <= 120
    error_message = "Fargate supports 2 to 120 seconds."
  }
}

variable "load_balancer" {
  description = "Target group of the tasks, and the seconds after the start of a task in which its health check is ignored. Null for none."
  type        = object({ target_group_arn = string, grace_seconds = number })
  default     = null

  validation {
    condition     = var.load_balancer == null || var.port != null
    error_message = "A service behind a load balancer needs a port."
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
}

variable "security_group_description" {
  description = "Description of the security group of the tasks. A change replaces the group."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9 ._:/()#,@\\[\\]+=&;{}!$*-]{1,255}$", var.security_group_description))
    error_message = "EC2 accepts 1 to 255 letters, digits, spaces and the characters ._-:/()#,@[]+=&;{}!$* in a description."
  }
}

variable "egress_cidr_blocks" {
  description = "CIDR blocks that tasks may connect to on port 443."
  type        = list(string)

  validation {
    condition     = alltrue([for block in var.egress_cidr_blocks : can(cidrhost(block, 0))])
    error_message = "Each entry must be a CIDR block, such as 10.0.0.0/8."
  }
}

variable "egress_description" {
  description = "Description of the egress rules."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9 ._:/()#,@\\[\\]+=&;{}!$*-]{1,255}$", var.egress_description))
    error_message = "EC2 accepts 1 to 255 letters, digits, spaces and the characters ._-:/()#,@[]+=&;{}!$* in a description."
  }
}

variable "environment" {
  description = "Environment variables of the program. Do not put secrets here."
  type        = map(string)
}

variable "secret_arn" {
  description = "ARN of the program's secret in Secrets Manager: one JSON object that maps names to values. Null if `secret_names` is empty."
  type        = string
  default     = null

  validation {
    condition     = length(var.secret_names) == 0 || can(regex("^arn:[a-z-]+:secretsmanager:[^*]+$", var.secret_arn))
    error_message = "The secret must be an ARN."
  }
}

variable "secret_names" {
  description = "Names of the environment variables that ECS sets from the entries of the secret."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.secret_names : can(regex("^[A-Za-z_][A-Za-z0-9_]*$", name))])
    error_message = "Each entry must be the name of an environment variable."
  }
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

variable "log_retention_days" {
  description = "Retention of the log in days."
  type        = number

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "The retention must be a value that CloudWatch Logs supports: 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or five to ten years."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the log and the secret. If null, AWS managed keys are used."
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

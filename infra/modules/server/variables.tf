variable "name" {
  description = "Name of the service, its cluster and its load balancer. For the load balancer it is truncated to 32 characters."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,39}$", var.name))
    error_message = "The name must have 1 to 40 lower-case letters, digits and hyphens, and start with a letter."
  }
}

variable "region" {
  description = "AWS region of the deployment, for the log driver."
  type        = string
}

variable "image" {
  description = "Image by digest, because a tag can be moved to an image that was not reviewed. The image contains the configuration and the public evidence key."
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

variable "tasks" {
  description = "Minimum and maximum number of tasks. Tasks share sessions through the session secret of the configuration."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 4 }

  validation {
    condition     = var.tasks.min >= 1 && var.tasks.max >= var.tasks.min
    error_message = "`min` must be at least 1, and `max` must not be less than `min`."
  }
}

variable "cpu_percent" {
  description = "Target for the average CPU utilization in percent. Autoscaling adds tasks above it."
  type        = number
  default     = 60

  validation {
    condition     = var.cpu_percent >= 10 && var.cpu_percent <= 90
    error_message = "The target must be 10 to 90 percent."
  }
}

variable "certificate_arn" {
  description = "ARN of the ACM certificate for the domain name of the server, in the same region."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]+:certificate/[^*]+$", var.certificate_arn))
    error_message = "The certificate must be the ARN of an ACM certificate."
  }
}

variable "internal" {
  description = "Whether the load balancer is internal, with private addresses only."
  type        = bool
  default     = false
}

variable "ingress_cidr_blocks" {
  description = "CIDR blocks that may connect to port 443, such as those of your offices. Use 0.0.0.0/0 for public access."
  type        = list(string)

  validation {
    condition     = length(var.ingress_cidr_blocks) > 0 && alltrue([for block in var.ingress_cidr_blocks : can(cidrhost(block, 0))])
    error_message = "At least one CIDR block is required, such as 203.0.113.0/24."
  }
}

variable "web_acl_arn" {
  description = "ARN of an AWS WAF web ACL for the load balancer. Null for none."
  type        = string
  default     = null
}

variable "idle_timeout_seconds" {
  description = "Idle timeout of connections in seconds. Streams send a heartbeat every 15 s."
  type        = number
  default     = 120

  validation {
    condition     = var.idle_timeout_seconds >= 60 && var.idle_timeout_seconds <= 4000
    error_message = "The idle timeout must be 60 to 4000 seconds. A shorter one would close slow streams."
  }
}

variable "deletion_protection" {
  description = "Whether deletion protection is enabled for the load balancer."
  type        = bool
  default     = true
}

variable "vpc_id" {
  description = "VPC of the load balancer and the tasks."
  type        = string
}

variable "balancer_subnet_ids" {
  description = "Subnets of the load balancer in at least two availability zones. They must be public, unless the load balancer is internal."
  type        = list(string)

  validation {
    condition     = length(var.balancer_subnet_ids) >= 2
    error_message = "The load balancer needs subnets in at least two availability zones."
  }
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
  description = "CIDR blocks that tasks may connect to on port 443: AWS and the identity provider."
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

variable "secret_arn" {
  description = "ARN of the program's secret in Secrets Manager: one JSON object that maps names to values."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:secretsmanager:[^*]+$", var.secret_arn))
    error_message = "The secret must be an ARN."
  }
}

variable "secret_names" {
  description = "Names of the environment variables in the `…_env` settings of the configuration. The secret must contain an entry for each of them."
  type        = set(string)

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

variable "access_log_bucket" {
  description = "Name of an existing bucket for server access logs of the bucket with the load balancer's log. Null disables them."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "Retention of the program's log and the load balancer's access log in days."
  type        = number
  default     = 365

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

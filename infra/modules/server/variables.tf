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
}

variable "cpu" {
  description = "CPU units of a task; 1024 units are one vCPU."
  type        = number
  default     = 256
}

variable "memory_mb" {
  description = "Memory of a task in MB."
  type        = number
  default     = 512
}

variable "tasks" {
  description = "Minimum and maximum number of tasks. Tasks share sessions through the session secret of the configuration."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 4 }
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
}

variable "environment" {
  description = "Environment variables of the program. Do not put secrets here."
  type        = map(string)
}

variable "secret_arn" {
  description = "ARN of the program's secret in Secrets Manager: one JSON object that maps names to values."
  type        = string
}

variable "secret_names" {
  description = "Names of the environment variables in the `…_env` settings of the configuration. The secret must contain an entry for each of them."
  type        = set(string)
}

variable "statements" {
  description = "IAM statements of the program's role: explicit actions on explicit resources."
  type = list(object({
    sid       = string
    actions   = list(string)
    resources = list(string)
  }))
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

variable "name" {
  description = "The service's name, its cluster's and its balancer's, which is cut to 32 characters."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,39}$", var.name))
    error_message = "A name is 1 to 40 lower-case letters, digits and dashes, and begins with a letter."
  }
}

variable "region" {
  description = "Where the deployment is; the log driver wants to be told."
  type        = string
}

variable "image" {
  description = "The image, by digest: a tag can be moved to something nobody reviewed. It holds the configuration and the public key of the evidence as well."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Name the image by its digest: repository@sha256:…"
  }
}

variable "repository_arn" {
  description = "The ECR repository the image comes from; none if it comes from a registry that asks for no login."
  type        = string
  default     = null
}

variable "architecture" {
  description = "What the image was built for."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "Fargate knows arm64 and x86_64."
  }
}

variable "cpu" {
  description = "Processor of a task, in 1024ths."
  type        = number
  default     = 256

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.cpu)
    error_message = "Fargate sells 256, 512, 1024, 2048 or 4096."
  }
}

variable "memory_mb" {
  description = "Memory of a task."
  type        = number
  default     = 512

  validation {
    condition     = var.memory_mb >= 512 && var.memory_mb <= 30720
    error_message = "Fargate sells 512 to 30720 MB, in steps that depend on the processor."
  }
}

variable "tasks" {
  description = "How many tasks there are, at least and at most. Several know each other's sessions by the session secret of the configuration."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 4 }

  validation {
    condition     = var.tasks.min >= 1 && var.tasks.max >= var.tasks.min
    error_message = "There is at least one task, and the most is not less than the least."
  }
}

variable "cpu_percent" {
  description = "How busy the tasks are to be on average; above it there are more of them."
  type        = number
  default     = 60

  validation {
    condition     = var.cpu_percent >= 10 && var.cpu_percent <= 90
    error_message = "This is 10 to 90 per cent."
  }
}

variable "certificate_arn" {
  description = "The certificate of the name that people and programs use, in ACM, in the same region."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]+:certificate/[^*]+$", var.certificate_arn))
    error_message = "A certificate is named by its ARN in ACM."
  }
}

variable "internal" {
  description = "Whether the balancer has private addresses alone, for people who reach the network by other ways."
  type        = bool
  default     = false
}

variable "ingress_cidr_blocks" {
  description = "Who may connect, on port 443: the addresses of your offices and programs, or 0.0.0.0/0 if you mean everybody."
  type        = list(string)

  validation {
    condition     = length(var.ingress_cidr_blocks) > 0 && alltrue([for block in var.ingress_cidr_blocks : can(cidrhost(block, 0))])
    error_message = "These have to be blocks of addresses, as in 203.0.113.0/24, and at least one."
  }
}

variable "web_acl_arn" {
  description = "A web ACL of AWS WAF before the balancer; none if there is none."
  type        = string
  default     = null
}

variable "idle_timeout_seconds" {
  description = "After how long a silent connection is cut. A stream says something every 15 s."
  type        = number
  default     = 120

  validation {
    condition     = var.idle_timeout_seconds >= 60 && var.idle_timeout_seconds <= 4000
    error_message = "This is 60 to 4000 s; less would cut off streams that are merely slow."
  }
}

variable "deletion_protection" {
  description = "Whether the balancer refuses to be deleted."
  type        = bool
  default     = true
}

variable "vpc_id" {
  description = "The network that balancer and tasks are in."
  type        = string
}

variable "balancer_subnet_ids" {
  description = "The balancer's subnets, in two zones or more: public ones, unless it is internal."
  type        = list(string)

  validation {
    condition     = length(var.balancer_subnet_ids) >= 2
    error_message = "A balancer is in two zones or more."
  }
}

variable "subnet_ids" {
  description = "The tasks' subnets; two or more, so that a zone can fail."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 1
    error_message = "There has to be a subnet."
  }
}

variable "public_ip" {
  description = "Whether each task has a public address. Only where the subnets have no other way out."
  type        = bool
  default     = false
}

variable "egress_cidr_blocks" {
  description = "Where tasks may connect to, on port 443: AWS, and the identity provider."
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = alltrue([for block in var.egress_cidr_blocks : can(cidrhost(block, 0))])
    error_message = "These have to be blocks of addresses, as in 10.0.0.0/8."
  }
}

variable "environment" {
  description = "The environment variables of the program. No secret belongs here."
  type        = map(string)
}

variable "secret_arn" {
  description = "The program's secret in Secrets Manager: one JSON object, name to value."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:secretsmanager:[^*]+$", var.secret_arn))
    error_message = "A secret is named by its ARN."
  }
}

variable "secret_names" {
  description = "What each `…_env` in the configuration names. The program is given these entries of its secret, and none of them may be missing there."
  type        = set(string)

  validation {
    condition     = alltrue([for name in var.secret_names : can(regex("^[A-Za-z_][A-Za-z0-9_]*$", name))])
    error_message = "These are names of environment variables."
  }
}

variable "statements" {
  description = "What the program's role may do: listed actions on listed resources."
  type = list(object({
    sid       = string
    actions   = list(string)
    resources = list(string)
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

variable "access_log_bucket" {
  description = "A bucket of yours that is to hold a line for each request to the bucket of the balancer's log; none if there is none."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "How long the program's log and the balancer's are kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or for five to ten years."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the log and the secret; AWS's own if there is none."
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

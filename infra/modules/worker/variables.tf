variable "name" {
  description = "The service's name, and its cluster's."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,49}$", var.name))
    error_message = "A name is 1 to 50 letters, digits and dashes, and begins with a letter."
  }
}

variable "region" {
  description = "Where the deployment is; the log driver wants to be told."
  type        = string
}

variable "image" {
  description = "The image, by digest: a tag can be moved to something nobody reviewed."
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

variable "spot" {
  description = "Whether tasks run on spare capacity: cheaper, and taken away with two minutes' notice. Nothing is lost; work is taken over."
  type        = bool
  default     = false
}

variable "tasks" {
  description = "How many tasks there are, at least and at most."
  type        = object({ min = number, max = number })
  default     = { min = 1, max = 4 }

  validation {
    condition     = var.tasks.min >= 1 && var.tasks.max >= var.tasks.min
    error_message = "There is at least one task, and the most is not less than the least."
  }
}

variable "vpc_id" {
  description = "The network the tasks are in."
  type        = string
}

variable "subnet_ids" {
  description = "Its subnets; two or more, so that a zone can fail."
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
  description = "Where tasks may connect to, on port 443. ServiceNow, GitHub and Slack have no short list of addresses."
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

variable "queue_names" {
  description = "The queues whose depth and age say how many tasks are needed. Keys become names of metrics: lower-case letters only."
  type        = map(string)

  validation {
    condition     = length(var.queue_names) > 0 && alltrue([for key in keys(var.queue_names) : can(regex("^[a-z]+$", key))])
    error_message = "There has to be a queue, and keys are lower-case letters."
  }
}

variable "backlog_per_task" {
  description = "How many waiting messages one task is thought to be able to work off within a minute or so."
  type        = number
  default     = 50

  validation {
    condition     = var.backlog_per_task > 0
    error_message = "This is a number of messages."
  }
}

variable "age_seconds" {
  description = "At which age of the oldest message a task is added, and at twice that age three."
  type        = number
  default     = 60

  validation {
    condition     = var.age_seconds >= 30
    error_message = "A dead worker's message comes back within 30 s; less than that is not a backlog."
  }
}

variable "log_retention_days" {
  description = "How long the log is kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or for five to ten years."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the log; CloudWatch's own if there is none."
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

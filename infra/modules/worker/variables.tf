variable "name" {
  description = "Name of the service and its cluster."
  type        = string
}

variable "region" {
  description = "AWS region of the deployment, for the log driver."
  type        = string
}

variable "image" {
  description = "Image by digest, because a tag can be moved to an image that was not reviewed."
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

variable "spot" {
  description = "Whether tasks run on Fargate Spot: cheaper, but interrupted with a notice of two minutes. Other workers take over the work, so no run is lost."
  type        = bool
  default     = false
}

variable "tasks" {
  description = "Minimum and maximum number of tasks."
  type        = object({ min = number, max = number })
  default     = { min = 1, max = 4 }
}

variable "vpc_id" {
  description = "VPC of the tasks."
  type        = string
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
  description = "CIDR blocks that tasks may connect to on port 443. ServiceNow, GitHub and Slack publish no short list of addresses."
  type        = list(string)
  default     = ["0.0.0.0/0"]
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

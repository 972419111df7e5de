variable "name" {
  description = "Name of the deployment and prefix of all resource names."
  type        = string
  default     = "countersign"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}$", var.name))
    error_message = "The name must have 2 to 31 lower-case letters, digits and hyphens, and start with a letter."
  }
}

variable "table_name" {
  description = "Name of the table. If null, the name of the deployment. Set it to use a restored table, which has a different name."
  type        = string
  default     = null
}

variable "region" {
  description = "AWS region of the deployment."
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "The region must look like us-east-1."
  }
}

variable "emails" {
  description = "E-mail addresses for alarm and budget notifications. Each address must confirm its subscription."
  type        = set(string)

  validation {
    condition     = length(var.emails) > 0
    error_message = "At least one e-mail address is required."
  }
}

variable "architecture" {
  description = "CPU architecture of the zips and the image."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture must be arm64 or x86_64."
  }
}

variable "packages" {
  description = "Directory with webhook.zip, slack.zip and sweep.zip, created by `cargo xtask package`."
  type        = string
  default     = "../../../target/package/arm64"

  validation {
    condition     = endswith(var.packages, "/${var.architecture}")
    error_message = "The packages must match the architecture: target/package/<architecture>."
  }
}

variable "image" {
  description = "Image of the worker by digest: <repository>@sha256:…"
  type        = string
}

variable "repository_arn" {
  description = "ARN of the ECR repository of the image. Null if the image comes from a registry without authentication."
  type        = string
  default     = null
}

variable "sources" {
  description = "YAML: the sources and tenants that the webhook function accepts, and the names of their secrets."
  type        = string
}

variable "systems" {
  description = "YAML: the endpoints of Slack, ServiceNow, GitHub and the other systems."
  type        = string
}

variable "deletion_protection" {
  description = "Whether deletion protection is enabled for the table and the load balancer."
  type        = bool
  default     = true
}

variable "tenants" {
  description = "Tenants that send webhooks. IAM denies the function access to the items of all other tenants."
  type        = list(string)

  validation {
    condition     = length(var.tenants) > 0
    error_message = "At least one tenant is required. Without tenants, the function could access the items of all tenants."
  }
}

variable "evidence_keep_days" {
  description = "Retention of evidence in days. In compliance mode it cannot be shortened, and storage is billed until it ends."
  type        = number
  default     = 2557
}

variable "access_log_bucket" {
  description = "Name of an existing bucket for server access logs of the buckets. Null disables them."
  type        = string
  default     = null
}

variable "zones" {
  description = "The two availability zones of the VPC."
  type        = list(string)
  default     = ["us-east-1a", "us-east-1b"]

  validation {
    condition     = alltrue([for zone in var.zones : startswith(zone, var.region)])
    error_message = "The zones must belong to the region."
  }
}

variable "cidr_block" {
  description = "CIDR block of the VPC."
  type        = string
  default     = "10.40.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr_block, 0)) && can(regex("/1[6-9]$", var.cidr_block))
    error_message = "The CIDR block must be between /16 and /19, because a load balancer needs subnets of /27 or larger."
  }
}

variable "tasks" {
  description = "Minimum and maximum number of workers."
  type        = object({ min = number, max = number })
  default     = { min = 3, max = 12 }

  validation {
    condition     = var.tasks.min >= 2
    error_message = "At least two workers are required, so that one is available while another is replaced."
  }
}

variable "server" {
  description = "The server for the API and the console: image with its configuration, certificate, CIDR blocks that may connect, the environment variables in the `…_env` settings of the configuration, and the number of tasks."
  type = object({
    image               = string
    repository_arn      = optional(string)
    certificate_arn     = string
    ingress_cidr_blocks = list(string)
    web_acl_arn         = optional(string)
    secret_names        = set(string)
    tasks               = optional(object({ min = number, max = number }), { min = 2, max = 6 })
  })

  validation {
    condition     = var.server.tasks.min >= 2
    error_message = "At least two servers are required, so that one is available while another is replaced."
  }

  validation {
    condition     = length(var.server.secret_names) > 0
    error_message = "`secret_names` must include the variable of `session_secret_env`, because the servers share sessions through this secret."
  }
}

variable "budget_usd" {
  description = "Monthly budget in USD."
  type        = number
  default     = 1000
}

variable "reserved_concurrency" {
  description = "Reserved concurrency of each function. Lambda keeps at least 100 unreserved, or 10 in an account with a small limit. In such an account, use -1, which reserves none, until AWS raises the limit."
  type        = object({ webhook = number, slack = number, sweep = number })
  default     = { webhook = 100, slack = 20, sweep = 1 }

  validation {
    condition     = alltrue([for calls in values(var.reserved_concurrency) : calls == -1 || calls >= 1 && floor(calls) == calls])
    error_message = "Each value must be an integer number of invocations, or -1 for no reservation."
  }
}

variable "connection_secrets" {
  description = "ARNs that workers may read for connections (docs/credentials.md): `secrets_manager`, `parameter_store` and `kms_keys`."
  type = object({
    secrets_manager = optional(list(string), [])
    parameter_store = optional(list(string), [])
    kms_keys        = optional(list(string), [])
  })
  default = {}
}

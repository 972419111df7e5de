variable "name" {
  description = "What the deployment is called; everything in it begins with this."
  type        = string
  default     = "countersign"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}$", var.name))
    error_message = "A name is 2 to 31 lower-case letters, digits and dashes, and begins with a letter."
  }
}

variable "table_name" {
  description = "What the table is called, if not as the deployment: a table that was restored has another name than the one it is a copy of."
  type        = string
  default     = null
}

variable "region" {
  description = "Where it is."
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "A region looks like us-east-1."
  }
}

variable "emails" {
  description = "Who is told of alarms and of the budget. Each address has to confirm once."
  type        = set(string)

  validation {
    condition     = length(var.emails) > 0
    error_message = "Somebody has to be told."
  }
}

variable "architecture" {
  description = "What zips and image were built for."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "This is arm64 or x86_64."
  }
}

variable "packages" {
  description = "The directory with webhook.zip, slack.zip and sweep.zip, as `cargo xtask package` leaves it."
  type        = string
  default     = "../../../target/package/arm64"

  validation {
    condition     = endswith(var.packages, "/${var.architecture}")
    error_message = "The packages have to be those of the architecture: target/package/<architecture>."
  }
}

variable "image" {
  description = "The worker's image, by digest: <repository>@sha256:…"
  type        = string
}

variable "repository_arn" {
  description = "The ECR repository the image comes from; none if it comes from a registry that asks for no login."
  type        = string
  default     = null
}

variable "sources" {
  description = "YAML: which sources and tenants the webhook function accepts, and the names of their secrets."
  type        = string
}

variable "systems" {
  description = "YAML: where Slack, ServiceNow, GitHub and the others are."
  type        = string
}

variable "deletion_protection" {
  description = "Whether the table and the balancer refuse to be deleted."
  type        = bool
  default     = true
}

variable "tenants" {
  description = "The tenants that send webhooks. IAM keeps the function from every other tenant's items."
  type        = list(string)

  validation {
    condition     = length(var.tenants) > 0
    error_message = "Name the tenants; without any the function could touch all of them."
  }
}

variable "evidence_keep_days" {
  description = "How long evidence is locked. In compliance mode nobody can shorten this afterwards, and the bucket is billed for as long."
  type        = number
  default     = 2557
}

variable "access_log_bucket" {
  description = "A bucket of yours that is to hold a line for each request to the buckets; none if there is none."
  type        = string
  default     = null
}

variable "zones" {
  description = "The two availability zones of the region that the network is in."
  type        = list(string)
  default     = ["us-east-1a", "us-east-1b"]

  validation {
    condition     = alltrue([for zone in var.zones : startswith(zone, var.region)])
    error_message = "A zone belongs to the region."
  }
}

variable "cidr_block" {
  description = "The network's addresses."
  type        = string
  default     = "10.40.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr_block, 0)) && can(regex("/1[6-9]$", var.cidr_block))
    error_message = "This is a block of addresses between /16 and /19: a balancer wants subnets of /27 or larger."
  }
}

variable "tasks" {
  description = "How many workers there are, at least and at most."
  type        = object({ min = number, max = number })
  default     = { min = 3, max = 12 }

  validation {
    condition     = var.tasks.min >= 2
    error_message = "One worker alone is none while it is replaced."
  }
}

variable "server" {
  description = "The API and the console: the image with its configuration, the certificate of their name, who may connect, what each `…_env` in the configuration names, and how many there are."
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
    error_message = "One server alone is none while it is replaced."
  }

  validation {
    condition     = length(var.server.secret_names) > 0
    error_message = "Several servers know each other's sessions by a secret: what `session_secret_env` names belongs here."
  }
}

variable "budget_usd" {
  description = "What a month may cost."
  type        = number
  default     = 1000
}

variable "reserved_concurrency" {
  description = "How many calls of each function may run at once, reserved for it. Lambda leaves at least 100 to the rest of the account, or 10 where that has few: on an account whose limit is small apply with -1 each, which reserves nothing, until AWS has raised it."
  type        = object({ webhook = number, slack = number, sweep = number })
  default     = { webhook = 100, slack = 20, sweep = 1 }

  validation {
    condition     = alltrue([for calls in values(var.reserved_concurrency) : calls == -1 || calls >= 1 && floor(calls) == calls])
    error_message = "Each is a whole number of calls, or -1 for as many as the account has left."
  }
}

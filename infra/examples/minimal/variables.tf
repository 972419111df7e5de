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
  description = "The tenants whose items the webhook function may touch; empty: all of them."
  type        = list(string)
  default     = []
}

variable "evidence_keep_days" {
  description = "How long evidence is locked."
  type        = number
  default     = 30
}

variable "vpc_id" {
  description = "The network that worker and server are in; the account's default one will do."
  type        = string
}

variable "subnet_ids" {
  description = "Its subnets; for a server in two zones or more."
  type        = list(string)
}

variable "public_ip" {
  description = "Whether worker and server have public addresses: yes in a default network, which has no other way out."
  type        = bool
  default     = true
}

variable "server" {
  description = "The API and the console: the image with its configuration, the certificate of their name, who may connect, and what each `…_env` in the configuration names. None: there is no server."
  type = object({
    image               = string
    repository_arn      = optional(string)
    certificate_arn     = string
    ingress_cidr_blocks = list(string)
    secret_names        = set(string)
  })
  default = null
}

variable "budget_usd" {
  description = "What a month may cost."
  type        = number
  default     = 50
}

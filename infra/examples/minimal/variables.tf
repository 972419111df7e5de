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
  description = "Tenants whose items the webhook function may access. Empty for all tenants."
  type        = list(string)
  default     = []
}

variable "evidence_keep_days" {
  description = "Retention of evidence in days."
  type        = number
  default     = 30
}

variable "vpc_id" {
  description = "VPC of the worker and the server. The default VPC is sufficient."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the worker and the server. A server needs at least two availability zones."
  type        = list(string)
}

variable "public_ip" {
  description = "Whether the worker and the server get public IP addresses. Required in a default VPC, which has no NAT gateway."
  type        = bool
  default     = true
}

variable "server" {
  description = "The server for the API and the console: image with its configuration, certificate, CIDR blocks that may connect, and the environment variables in the `…_env` settings of the configuration. Null for no server."
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
  description = "Monthly budget in USD."
  type        = number
  default     = 50
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

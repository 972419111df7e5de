variable "table" {
  description = "Name and ARN of the ledger table, and the ARN of each index."
  type = object({
    name       = string
    arn        = string
    index_arns = map(string)
  })
}

variable "queues" {
  description = "The three queues and the ARNs of their dead-letter queues."
  type = object({
    ingest    = object({ arn = string, url = string, dead_arn = string })
    decisions = object({ arn = string, url = string, dead_arn = string })
    steps     = object({ arn = string, url = string, dead_arn = string })
  })
}

variable "payloads" {
  description = "Name and ARN of the payloads bucket."
  type        = object({ name = string, arn = string })
}

variable "evidence" {
  description = "Name and ARN of the evidence bucket, its retention in days and its Object Lock mode."
  type        = object({ name = string, arn = string, keep_days = number, lock_mode = string })
}

variable "secret_arns" {
  description = "Map from program to the ARN of its secret. The sweep has no secret. The server is not listed, because ECS reads its secret."
  type        = map(string)

  validation {
    condition     = alltrue([for program in ["webhook", "slack", "worker"] : contains(keys(var.secret_arns), program)])
    error_message = "The programs webhook, slack and worker each need a secret."
  }
}

variable "kms_key_arns" {
  description = "ARNs of the KMS keys for the table, queues, buckets and secrets. Empty if AWS managed keys are used."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.kms_key_arns : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]+:key/[^*]+$", arn))])
    error_message = "Each key must be an ARN without a wildcard."
  }
}

variable "connection_secrets" {
  description = "ARNs that workers may read for connections: secrets in Secrets Manager, parameters in Parameter Store, and the KMS keys that encrypt them. An ARN may end with `/*` for all below one path: `arn:aws:secretsmanager:eu-central-1:123456789012:secret:countersign/acme/*`."
  type = object({
    secrets_manager = optional(list(string), [])
    parameter_store = optional(list(string), [])
    kms_keys        = optional(list(string), [])
  })
  default = {}

  validation {
    condition = alltrue([for arn in var.connection_secrets.secrets_manager :
      can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]+:secret:[A-Za-z0-9/_+=.@-]+(/\\*|[A-Za-z0-9])$", arn))
    ])
    error_message = "Each entry of `secrets_manager` must be the ARN of one secret, or end with `/*` after a path."
  }

  validation {
    condition = alltrue([for arn in var.connection_secrets.parameter_store :
      can(regex("^arn:[a-z-]+:ssm:[a-z0-9-]+:[0-9]+:parameter/[A-Za-z0-9/_.-]+(/\\*|[A-Za-z0-9])$", arn))
    ])
    error_message = "Each entry of `parameter_store` must be the ARN of one parameter, or end with `/*` after a path."
  }

  validation {
    condition     = alltrue([for arn in var.connection_secrets.kms_keys : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]+:key/[^*]+$", arn))])
    error_message = "Each key must be an ARN without a wildcard."
  }
}

variable "tenants" {
  description = "Tenants whose items the webhook function may access, enforced by IAM. Empty for all tenants."
  type        = list(string)
  default     = []

  validation {
    # The characters of an id (crates/domain/src/id.rs). In IAM, `*` or `?` would match several tenants.
    condition     = alltrue([for tenant in var.tenants : can(regex("^[A-Za-z0-9._-]{1,128}$", tenant))])
    error_message = "Each tenant must have 1 to 128 letters, digits, `.`, `_` and `-`."
  }
}

# Lambda limits the environment to 4 KB, names included, measured as JSON: a newline and a quotation mark are two bytes
# each. 3,000 bytes for this value leave 1,096 bytes for table, queues, buckets, the ARN of the secret and the log
# filter, which take about 600 bytes; more with long names. 4,000 base64 characters are 3,000 bytes.
variable "sources" {
  description = "YAML: the sources and tenants that the webhook function accepts, and the names of their secrets. At most 3,000 bytes as JSON, because Lambda limits the environment to 4 KB."
  type        = string

  validation {
    condition     = can(yamldecode(var.sources))
    error_message = "The value must be valid YAML."
  }

  validation {
    # Otherwise IAM would deny the writes for every authenticated webhook of the missing tenant.
    condition = length(var.tenants) == 0 || length(setsubtract(
      try([for source in yamldecode(var.sources) : try(source.tenant, "")], []), var.tenants
    )) == 0
    error_message = "A source has no tenant, or a tenant that is not in `tenants`, so IAM would deny access to its items. Add the tenant to `tenants`."
  }

  validation {
    condition     = length(base64encode(jsonencode(var.sources))) <= 4000
    error_message = "`sources` has more than 3,000 bytes as JSON. Lambda limits the environment to 4 KB, and the rest is needed for the names of the table, queues, buckets and secret. Remove comments, or move some tenants to another deployment."
  }
}

variable "systems" {
  description = "YAML: the endpoints of Slack, ServiceNow, GitHub and the other systems. At most 3,000 bytes as JSON, like `sources`, because the Slack function gets it as well."
  type        = string

  validation {
    condition     = can(yamldecode(var.systems))
    error_message = "The value must be valid YAML."
  }

  validation {
    condition     = length(base64encode(jsonencode(var.systems))) <= 4000
    error_message = "`systems` has more than 3,000 bytes as JSON. Lambda limits the environment to 4 KB, and the rest is needed for the names of the table, queues, buckets and secret. Remove comments, or move some tenants to another deployment."
  }
}

variable "room" {
  description = "Number of messages of each queue that a worker processes concurrently. Each queue has its own limit, so that decisions never wait for steps. As many again are processed for tenants that hold less than an eighth of the limit."
  type        = object({ ingest = number, decisions = number, steps = number })
  default     = { ingest = 8, decisions = 8, steps = 16 }

  validation {
    condition     = alltrue([for room in values(var.room) : room >= 1 && room <= 256 && floor(room) == room])
    error_message = "Each limit must be an integer from 1 to 256."
  }
}

variable "timers" {
  description = "Intervals of a worker in seconds: the lease of a step, its renewal, the sweep for overdue runs, and one poll of a queue. Another worker takes over the step of a dead worker when its lease has expired and the next poll receives its message."
  type = object({
    lease_seconds = optional(number, 20)
    renew_seconds = optional(number, 5)
    sweep_seconds = optional(number, 30)
    poll_seconds  = optional(number, 5)
  })
  default = {}

  # The worker checks the same limits when it starts (worker/src/bin/countersign-worker/timers.rs).
  validation {
    condition     = alltrue([for seconds in values(var.timers) : floor(seconds) == seconds])
    error_message = "Each interval must be an integer."
  }

  validation {
    condition     = var.timers.lease_seconds >= 5 && var.timers.lease_seconds <= 900
    error_message = "The lease must be from 5 to 900 s."
  }

  validation {
    condition     = var.timers.renew_seconds >= 1 && var.timers.renew_seconds <= var.timers.lease_seconds / 2
    error_message = "The renewal must be at least 1 s and at most half of the lease."
  }

  validation {
    condition     = var.timers.sweep_seconds >= 5 && var.timers.sweep_seconds <= 3600
    error_message = "The sweep must be from 5 to 3,600 s."
  }

  validation {
    condition     = var.timers.poll_seconds >= 1 && var.timers.poll_seconds <= 20
    error_message = "The poll must be from 1 to 20 s, the limit of SQS."
  }
}

variable "log_filter" {
  description = "Log filter in the format of `tracing`, such as `info` or `info,engine=debug`."
  type        = string
  default     = "info"
}

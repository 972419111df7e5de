variable "table" {
  description = "The ledger: its name, its ARN, and the ARN of each index."
  type = object({
    name       = string
    arn        = string
    index_arns = map(string)
  })
}

variable "queues" {
  description = "The three queues, and where their dead letters go."
  type = object({
    ingest    = object({ arn = string, url = string, dead_arn = string })
    decisions = object({ arn = string, url = string, dead_arn = string })
    steps     = object({ arn = string, url = string, dead_arn = string })
  })
}

variable "payloads" {
  description = "The bucket of payloads."
  type        = object({ name = string, arn = string })
}

variable "evidence" {
  description = "The bucket of evidence, for how many days an object in it is locked, and against whom."
  type        = object({ name = string, arn = string, keep_days = number, lock_mode = string })
}

variable "secret_arns" {
  description = "Program to the ARN of its secret. The sweep has none. The server's is not asked for here: ECS reads it, not the program."
  type        = map(string)

  validation {
    condition     = alltrue([for program in ["webhook", "slack", "worker"] : contains(keys(var.secret_arns), program)])
    error_message = "Each of webhook, slack and worker needs a secret."
  }
}

variable "kms_key_arns" {
  description = "The customer keys of table, queues, buckets and secrets; empty where AWS's own keys are used."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.kms_key_arns : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]+:key/[^*]+$", arn))])
    error_message = "A key is named by its ARN, without a wildcard."
  }
}

variable "tenants" {
  description = "The tenants whose items the webhook function may touch, enforced by IAM; empty: all of them."
  type        = list(string)
  default     = []

  validation {
    # The charset of an id (crates/domain/src/id.rs); a `*` or `?` would mean more than one tenant to IAM.
    condition     = alltrue([for tenant in var.tenants : can(regex("^[A-Za-z0-9._-]{1,128}$", tenant))])
    error_message = "A tenant is 1 to 128 letters, digits, `.`, `_` and `-`."
  }
}

# Lambda holds 4 KB of environment, names included, measured as JSON: a line's end and a quote are two bytes each. 3,000
# bytes for the one long value leave 1,096 for table, queues, buckets, the secret's ARN and the log's filter, which take
# about 600; long names take more. 4,000 characters of base64 are 3,000 bytes.
variable "sources" {
  description = "YAML: which sources and tenants the webhook function accepts, and the names of their secrets. At most 3,000 bytes as JSON, since Lambda holds 4 KB of environment in all."
  type        = string

  validation {
    condition     = can(yamldecode(var.sources))
    error_message = "This has to be YAML."
  }

  validation {
    # Else every delivery of the tenant that was forgotten would be proved, and then refused by IAM.
    condition = length(var.tenants) == 0 || length(setsubtract(
      try([for source in yamldecode(var.sources) : try(source.tenant, "")], []), var.tenants
    )) == 0
    error_message = "A source names no tenant, or one that `tenants` does not name: IAM would keep the function from its items. Add it there."
  }

  validation {
    condition     = length(base64encode(jsonencode(var.sources))) <= 4000
    error_message = "The sources take more than 3,000 bytes as JSON. A Lambda function holds 4 KB of environment, and the rest is for the names of table, queues, buckets and secret: leave out comments, or give some tenants a deployment of their own."
  }
}

variable "systems" {
  description = "YAML: where Slack, ServiceNow, GitHub and the others are. At most 3,000 bytes as JSON, like `sources`: the function for Slack is told it too."
  type        = string

  validation {
    condition     = can(yamldecode(var.systems))
    error_message = "This has to be YAML."
  }

  validation {
    condition     = length(base64encode(jsonencode(var.systems))) <= 4000
    error_message = "The systems take more than 3,000 bytes as JSON. A Lambda function holds 4 KB of environment, and the rest is for the names of table, queues, buckets and secret: leave out comments, or give some tenants a deployment of their own."
  }
}

variable "room" {
  description = "How many messages of each queue one worker works on at a time. Decisions have room of their own, so that they never wait behind steps."
  type        = object({ ingest = number, decisions = number, steps = number })
  default     = { ingest = 8, decisions = 8, steps = 16 }

  validation {
    condition     = alltrue([for room in values(var.room) : room >= 1 && room <= 256 && floor(room) == room])
    error_message = "Each is a whole number from 1 to 256."
  }
}

variable "log_filter" {
  description = "What is logged, as `tracing` reads it: `info`, or `info,engine=debug`."
  type        = string
  default     = "info"
}

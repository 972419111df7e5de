# A production deployment: its own VPC with a NAT gateway in each zone, evidence in compliance mode, a webhook function
# that is limited to its tenants, several workers, several servers behind a load balancer, and tracing.

provider "aws" {
  region = var.region
}

data "aws_caller_identity" "current" {}

locals {
  tags     = { Application = var.name }
  account  = data.aws_caller_identity.current.account_id
  packages = { for function in ["webhook", "slack", "sweep"] : function => "${var.packages}/${function}.zip" }
}

module "key" {
  source = "../../modules/key"

  name   = var.name
  region = var.region
  tags   = local.tags
}

module "alarms" {
  source = "../../modules/alarms"

  name        = var.name
  emails      = var.emails
  kms_key_arn = module.key.arn
  tags        = local.tags
}

module "budget" {
  source = "../../modules/budget"

  name             = var.name
  limit_usd        = var.budget_usd
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "network" {
  source = "../../modules/network"

  name         = var.name
  region       = var.region
  zones        = var.zones
  cidr_block   = var.cidr_block
  nat_gateways = 2
  kms_key_arn  = module.key.arn
  tags         = local.tags
}

# ---- storage

module "ledger" {
  source = "../../modules/ledger"

  name                = coalesce(var.table_name, var.name)
  deletion_protection = var.deletion_protection
  kms_key_arn         = module.key.arn
  alarm_topic_arns    = [module.alarms.topic_arn]
  tags                = local.tags
}

module "queue" {
  source   = "../../modules/queue"
  for_each = toset(["ingest", "decisions", "steps"])

  name             = "${var.name}-${each.key}"
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "payloads" {
  source = "../../modules/payloads"

  name              = "${var.name}-payloads-${local.account}"
  kms_key_arn       = module.key.arn
  access_log_bucket = var.access_log_bucket
  tags              = local.tags
}

module "evidence" {
  source = "../../modules/evidence"

  name              = "${var.name}-evidence-${local.account}"
  lock_mode         = "COMPLIANCE"
  keep_days         = var.evidence_keep_days
  kms_key_arn       = module.key.arn
  access_log_bucket = var.access_log_bucket
  tags              = local.tags
}

module "secrets" {
  source = "../../modules/secrets"

  name        = var.name
  programs    = ["webhook", "slack", "worker", "server"]
  kms_key_arn = module.key.arn
  tags        = local.tags
}

# ---- programs

module "programs" {
  source = "../../modules/programs"

  table              = module.ledger
  queues             = module.queue
  payloads           = module.payloads
  evidence           = module.evidence
  secret_arns        = module.secrets.arns
  kms_key_arns       = [module.key.arn]
  tenants            = var.tenants
  connection_secrets = var.connection_secrets
  sources            = var.sources
  systems            = var.systems
  room               = { ingest = 16, decisions = 16, steps = 32 }
}

module "webhook" {
  source = "../../modules/function"

  name                 = "${var.name}-webhook"
  description          = "Receives webhooks from ServiceNow, GitHub and other sources"
  package              = local.packages["webhook"]
  architecture         = var.architecture
  reserved_concurrency = var.reserved_concurrency.webhook
  tracing              = true
  environment          = module.programs.environment.webhook
  statements           = module.programs.statements.webhook
  kms_key_arn          = module.key.arn
  alarm_topic_arns     = [module.alarms.topic_arn]
  tags                 = local.tags
}

module "slack" {
  source = "../../modules/function"

  name                 = "${var.name}-slack"
  description          = "Receives interactions and commands from Slack"
  package              = local.packages["slack"]
  architecture         = var.architecture
  reserved_concurrency = var.reserved_concurrency.slack
  tracing              = true
  environment          = module.programs.environment.slack
  statements           = module.programs.statements.slack
  kms_key_arn          = module.key.arn
  alarm_topic_arns     = [module.alarms.topic_arn]
  tags                 = local.tags
}

module "sweep" {
  source = "../../modules/function"

  name            = "${var.name}-sweep"
  description     = "Resumes due runs and sends outstanding messages"
  package         = local.packages["sweep"]
  architecture    = var.architecture
  timeout_seconds = 50
  asynchronous    = true
  # One invocation at a time, because a concurrent one would find the same items.
  reserved_concurrency = var.reserved_concurrency.sweep
  tracing              = true
  environment          = module.programs.environment.sweep
  statements           = module.programs.statements.sweep
  kms_key_arn          = module.key.arn
  alarm_topic_arns     = [module.alarms.topic_arn]
  tags                 = local.tags
}

module "schedule" {
  source = "../../modules/schedule"

  name             = "${var.name}-sweep"
  function_name    = module.sweep.name
  function_arn     = module.sweep.arn
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "api" {
  source = "../../modules/api"

  name                = var.name
  webhook             = module.webhook
  slack               = module.slack
  requests_per_second = 500
  burst               = 1000
  kms_key_arn         = module.key.arn
  alarm_topic_arns    = [module.alarms.topic_arn]
  tags                = local.tags
}

module "worker" {
  source = "../../modules/worker"

  name             = "${var.name}-worker"
  region           = var.region
  image            = var.image
  repository_arn   = var.repository_arn
  architecture     = var.architecture
  cpu              = 1024
  memory_mb        = 2048
  tasks            = var.tasks
  vpc_id           = module.network.vpc_id
  subnet_ids       = module.network.private_subnet_ids
  environment      = module.programs.environment.worker
  statements       = module.programs.statements.worker
  queue_names      = { for name, queue in module.queue : name => queue.name }
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "server" {
  source = "../../modules/server"

  name                = "${var.name}-server"
  region              = var.region
  image               = var.server.image
  repository_arn      = var.server.repository_arn
  architecture        = var.architecture
  cpu                 = 1024
  memory_mb           = 2048
  tasks               = var.server.tasks
  certificate_arn     = var.server.certificate_arn
  ingress_cidr_blocks = var.server.ingress_cidr_blocks
  web_acl_arn         = var.server.web_acl_arn
  deletion_protection = var.deletion_protection
  vpc_id              = module.network.vpc_id
  balancer_subnet_ids = module.network.public_subnet_ids
  subnet_ids          = module.network.private_subnet_ids
  environment         = module.programs.environment.server
  secret_arn          = module.secrets.arns["server"]
  secret_names        = var.server.secret_names
  statements          = module.programs.statements.server
  access_log_bucket   = var.access_log_bucket
  kms_key_arn         = module.key.arn
  alarm_topic_arns    = [module.alarms.topic_arn]
  tags                = local.tags
}

# The smallest complete deployment: one worker in an existing VPC, one KMS key, e-mail notifications for alarms, and
# optionally a server for the API and the console.
# infra/README.md lists the monthly cost.

provider "aws" {
  region = var.region
}

data "aws_caller_identity" "current" {}

locals {
  tags     = { Application = var.name }
  account  = data.aws_caller_identity.current.account_id
  packages = { for function in ["webhook", "slack", "sweep"] : function => "${var.packages}/${function}.zip" }
  programs = ["webhook", "slack", "worker"]
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

  name        = "${var.name}-payloads-${local.account}"
  kms_key_arn = module.key.arn
  tags        = local.tags
}

module "evidence" {
  source = "../../modules/evidence"

  name        = "${var.name}-evidence-${local.account}"
  keep_days   = var.evidence_keep_days
  kms_key_arn = module.key.arn
  tags        = local.tags
}

module "secrets" {
  source = "../../modules/secrets"

  name        = var.name
  programs    = var.server == null ? local.programs : concat(local.programs, ["server"])
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
}

module "webhook" {
  source = "../../modules/function"

  name             = "${var.name}-webhook"
  description      = "Receives webhooks from ServiceNow, GitHub and other sources"
  package          = local.packages["webhook"]
  architecture     = var.architecture
  environment      = module.programs.environment.webhook
  statements       = module.programs.statements.webhook
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "slack" {
  source = "../../modules/function"

  name             = "${var.name}-slack"
  description      = "Receives interactions and commands from Slack"
  package          = local.packages["slack"]
  architecture     = var.architecture
  environment      = module.programs.environment.slack
  statements       = module.programs.statements.slack
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "sweep" {
  source = "../../modules/function"

  name             = "${var.name}-sweep"
  description      = "Resumes due runs and sends outstanding messages"
  package          = local.packages["sweep"]
  architecture     = var.architecture
  timeout_seconds  = 50
  asynchronous     = true
  environment      = module.programs.environment.sweep
  statements       = module.programs.statements.sweep
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
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

  name             = var.name
  webhook          = module.webhook
  slack            = module.slack
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "worker" {
  source = "../../modules/worker"

  name             = "${var.name}-worker"
  region           = var.region
  image            = var.image
  repository_arn   = var.repository_arn
  architecture     = var.architecture
  tasks            = { min = 1, max = 2 }
  vpc_id           = var.vpc_id
  subnet_ids       = var.subnet_ids
  public_ip        = var.public_ip
  environment      = module.programs.environment.worker
  statements       = module.programs.statements.worker
  queue_names      = { for name, queue in module.queue : name => queue.name }
  kms_key_arn      = module.key.arn
  alarm_topic_arns = [module.alarms.topic_arn]
  tags             = local.tags
}

module "server" {
  source = "../../modules/server"
  count  = var.server == null ? 0 : 1

  name                = "${var.name}-server"
  region              = var.region
  image               = var.server.image
  repository_arn      = var.server.repository_arn
  architecture        = var.architecture
  tasks               = { min = 1, max = 2 }
  certificate_arn     = var.server.certificate_arn
  ingress_cidr_blocks = var.server.ingress_cidr_blocks
  deletion_protection = var.deletion_protection
  vpc_id              = var.vpc_id
  balancer_subnet_ids = var.subnet_ids
  subnet_ids          = var.subnet_ids
  public_ip           = var.public_ip
  environment         = module.programs.environment.server
  secret_arn          = module.secrets.arns["server"]
  secret_names        = var.server.secret_names
  statements          = module.programs.statements.server
  kms_key_arn         = module.key.arn
  alarm_topic_arns    = [module.alarms.topic_arn]
  tags                = local.tags
}

# The environment variables and IAM statements of each program. This module creates no resources; the examples pass its
# outputs to `function`, `worker` and `server`. tests/infra compares the variables with those that the programs read.
#
# No statement has a wildcard for actions or resources, except `/*` for the objects of one bucket, whose names are
# hashes, and for the secrets below one path that the caller names in `connection_secrets`.

locals {
  common = {
    COUNTERSIGN_TABLE           = var.table.name
    COUNTERSIGN_QUEUE_INGEST    = var.queues.ingest.url
    COUNTERSIGN_QUEUE_DECISIONS = var.queues.decisions.url
    COUNTERSIGN_QUEUE_STEPS     = var.queues.steps.url
    COUNTERSIGN_PAYLOADS        = var.payloads.name
    COUNTERSIGN_EVIDENCE        = var.evidence.name
    RUST_LOG                    = var.log_filter
  }

  environment = {
    webhook = merge(local.common, {
      COUNTERSIGN_SECRET  = var.secret_arns["webhook"]
      COUNTERSIGN_SOURCES = var.sources
    })

    slack = merge(local.common, {
      COUNTERSIGN_SECRET = var.secret_arns["slack"]
      COUNTERSIGN_CONFIG = var.systems
    })

    sweep = local.common

    worker = merge(local.common, {
      COUNTERSIGN_SECRET                  = var.secret_arns["worker"]
      COUNTERSIGN_CONFIG                  = var.systems
      COUNTERSIGN_EVIDENCE_RETENTION_DAYS = tostring(var.evidence.keep_days)
      COUNTERSIGN_EVIDENCE_RETENTION_MODE = lower(var.evidence.lock_mode)
      COUNTERSIGN_HEALTH                  = "0.0.0.0:8080"
      # Loopback only, for a collector in the same task: the metrics contain tenant names and need no authentication.
      COUNTERSIGN_METRICS               = "127.0.0.1:9464"
      COUNTERSIGN_CONCURRENCY_INGEST    = tostring(var.room.ingest)
      COUNTERSIGN_CONCURRENCY_DECISIONS = tostring(var.room.decisions)
      COUNTERSIGN_CONCURRENCY_STEPS     = tostring(var.room.steps)
      COUNTERSIGN_LEASE                 = "${var.timers.lease_seconds}s"
      COUNTERSIGN_RENEW_EVERY           = "${var.timers.renew_seconds}s"
      COUNTERSIGN_SWEEP_EVERY           = "${var.timers.sweep_seconds}s"
      COUNTERSIGN_POLL                  = "${var.timers.poll_seconds}s"
    })

    # The configuration is in the image, and ECS passes the secrets to the program.
    server = local.common
  }

  queue_arns = [var.queues.ingest.arn, var.queues.decisions.arn, var.queues.steps.arn]
  dead_arns  = [var.queues.ingest.dead_arn, var.queues.decisions.dead_arn, var.queues.steps.dead_arn]

  # With a customer managed key, every caller that reads or writes data also needs access to the key.
  keys = [for arns in [var.kms_key_arns] : {
    sid       = "UseKmsKeys"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = arns
  } if length(arns) > 0]

  # Only workers fetch the secrets of connections.
  connection_secrets = [for statement in [
    {
      sid       = "ReadConnectionSecrets"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = var.connection_secrets.secrets_manager
    },
    {
      sid       = "ReadConnectionParameters"
      actions   = ["ssm:GetParameter"]
      resources = var.connection_secrets.parameter_store
    },
    {
      sid       = "DecryptConnectionSecrets"
      actions   = ["kms:Decrypt"]
      resources = var.connection_secrets.kms_keys
    },
  ] : statement if length(statement.resources) > 0]

  secret = { for program, arn in var.secret_arns : program => [{
    sid       = "ReadSecret"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [arn]
  }] }

  statements = {
    webhook = concat(local.secret["webhook"], local.keys, [
      {
        sid       = "WriteInbox"
        actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        resources = [var.table.arn]
        # A partition key starts with the tenant and `#`, which tenant names cannot contain.
        leading_keys = [for tenant in var.tenants : "${tenant}#*"]
      },
      {
        sid       = "SendInboundEvents"
        actions   = ["sqs:SendMessage"]
        resources = [var.queues.ingest.arn]
      },
      {
        # Bodies that are too large for an item. Existing ones are overwritten: checking their age needs read access.
        sid       = "WritePayloads"
        actions   = ["s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
    ])

    slack = concat(local.secret["slack"], local.keys, [
      {
        sid = "RecordDecisions"
        actions = [
          "dynamodb:GetItem",
          "dynamodb:BatchGetItem",
          "dynamodb:Query",
          "dynamodb:PutItem",
          "dynamodb:UpdateItem",
          "dynamodb:DeleteItem",
        ]
        resources = [var.table.arn]
      },
      {
        sid       = "QueryOpenApprovals"
        actions   = ["dynamodb:Query"]
        resources = [var.table.index_arns["open_approvals"]]
      },
      {
        # Decisions on approvals, and runs that users start.
        sid       = "SendMessages"
        actions   = ["sqs:SendMessage"]
        resources = local.queue_arns
      },
      {
        sid       = "ReadAndWritePayloads"
        actions   = ["s3:GetObject", "s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
      {
        # Without this permission, S3 returns 403 instead of 404 for a missing object.
        sid       = "ListPayloads"
        actions   = ["s3:ListBucket"]
        resources = [var.payloads.arn]
      },
    ])

    sweep = concat(local.keys, [
      {
        sid = "UpdateRunsAndOutbox"
        actions = [
          "dynamodb:GetItem",
          "dynamodb:BatchGetItem",
          "dynamodb:PutItem",
          "dynamodb:UpdateItem",
          "dynamodb:DeleteItem",
        ]
        resources = [var.table.arn]
      },
      {
        sid       = "QueryDueIndex"
        actions   = ["dynamodb:Query"]
        resources = [var.table.index_arns["due"]]
      },
      {
        sid       = "SendMessages"
        actions   = ["sqs:SendMessage"]
        resources = local.queue_arns
      },
      {
        sid       = "ReadPayloads"
        actions   = ["s3:GetObject"]
        resources = ["${var.payloads.arn}/*"]
      },
    ])

    worker = concat(local.secret["worker"], local.connection_secrets, local.keys, [
      {
        # All item operations of the ledger. No scan, and no change of the table itself.
        sid = "ReadAndWriteLedger"
        actions = [
          "dynamodb:GetItem",
          "dynamodb:BatchGetItem",
          "dynamodb:Query",
          "dynamodb:BatchWriteItem",
          "dynamodb:PutItem",
          "dynamodb:UpdateItem",
          "dynamodb:DeleteItem",
        ]
        resources = [var.table.arn]
      },
      {
        # The worker also sweeps, in addition to the scheduled function.
        sid       = "QueryDueIndex"
        actions   = ["dynamodb:Query"]
        resources = [var.table.index_arns["due"]]
      },
      {
        sid = "ReceiveAndSendMessages"
        actions = [
          "sqs:ReceiveMessage",
          "sqs:DeleteMessage",
          "sqs:ChangeMessageVisibility",
          "sqs:SendMessage",
          "sqs:GetQueueAttributes",
        ]
        resources = local.queue_arns
      },
      {
        sid       = "ReadAndWritePayloads"
        actions   = ["s3:GetObject", "s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
      {
        # The worker reads the bundle of a run that has one already, and compares it with the bundle that it built.
        sid       = "WriteEvidence"
        actions   = ["s3:GetObject", "s3:PutObject", "s3:PutObjectRetention"]
        resources = ["${var.evidence.arn}/*"]
      },
      {
        # Without this permission, S3 returns 403 instead of 404 for a missing object.
        sid       = "ListPayloads"
        actions   = ["s3:ListBucket"]
        resources = [var.payloads.arn]
      },
    ])

    server = concat(local.keys, [
      {
        # The server executes requests of users and programs, and writes the same items as a worker.
        sid = "ReadAndWriteLedger"
        actions = [
          "dynamodb:GetItem",
          "dynamodb:BatchGetItem",
          "dynamodb:Query",
          "dynamodb:PutItem",
          "dynamodb:UpdateItem",
          "dynamodb:DeleteItem",
        ]
        resources = [var.table.arn]
      },
      {
        # All indexes: lists of runs, open approvals and overdue runs.
        sid       = "QueryIndexes"
        actions   = ["dynamodb:Query"]
        resources = values(var.table.index_arns)
      },
      {
        # The server receives no messages from these queues; workers do.
        sid       = "SendAndCountMessages"
        actions   = ["sqs:SendMessage", "sqs:GetQueueAttributes"]
        resources = local.queue_arns
      },
      {
        # SQS shows dead-letter messages only through ReceiveMessage. The server makes each message visible again.
        sid       = "ReadDeadLetters"
        actions   = ["sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"]
        resources = local.dead_arns
      },
      {
        sid       = "ReadAndWritePayloads"
        actions   = ["s3:GetObject", "s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
      {
        sid       = "ReadEvidence"
        actions   = ["s3:GetObject"]
        resources = ["${var.evidence.arn}/*"]
      },
      {
        # Without this permission, S3 returns 403 instead of 404 for a missing object.
        sid       = "ListPayloadsAndEvidence"
        actions   = ["s3:ListBucket"]
        resources = [var.payloads.arn, var.evidence.arn]
      },
    ])
  }
}

# What each program is told, and what it may do: the one place for both. Nothing is made here; the examples hand
# these on to `function`, `worker` and `server`. tests/infra compares the names with those that the programs read.
#
# No statement allows a whole service or any resource. The `/*` behind a bucket's ARN stands for its objects, whose
# names are hashes nobody knows beforehand.

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
      COUNTERSIGN_SECRET  = var.secret_arns["slack"]
      COUNTERSIGN_SYSTEMS = var.systems
    })

    sweep = local.common

    worker = merge(local.common, {
      COUNTERSIGN_SECRET             = var.secret_arns["worker"]
      COUNTERSIGN_SYSTEMS            = var.systems
      COUNTERSIGN_EVIDENCE_KEEP_DAYS = tostring(var.evidence.keep_days)
      COUNTERSIGN_EVIDENCE_LOCK      = lower(var.evidence.lock_mode)
      COUNTERSIGN_HEALTH             = "0.0.0.0:8080"
      # For a collector in the same task: it names tenants, and asks for no key.
      COUNTERSIGN_METRICS        = "127.0.0.1:9464"
      COUNTERSIGN_ROOM_INGEST    = tostring(var.room.ingest)
      COUNTERSIGN_ROOM_DECISIONS = tostring(var.room.decisions)
      COUNTERSIGN_ROOM_STEPS     = tostring(var.room.steps)
    })

    # Its configuration is in its image, and ECS hands it its secrets.
    server = local.common
  }

  queue_arns = [var.queues.ingest.arn, var.queues.decisions.arn, var.queues.steps.arn]
  dead_arns  = [var.queues.ingest.dead_arn, var.queues.decisions.dead_arn, var.queues.steps.dead_arn]

  # With a customer key, whoever asks a service to read or write asks for the key as well.
  keys = [for arns in [var.kms_key_arns] : {
    sid       = "UseTheKeys"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = arns
  } if length(arns) > 0]

  secret = { for program, arn in var.secret_arns : program => [{
    sid       = "ReadItsSecret"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [arn]
  }] }

  statements = {
    webhook = concat(local.secret["webhook"], local.keys, [
      {
        sid       = "WriteTheInbox"
        actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        resources = [var.table.arn]
        # A partition key begins with its tenant and `#`, which no tenant's name holds.
        leading_keys = [for tenant in var.tenants : "${tenant}#*"]
      },
      {
        sid       = "SendWhatCameIn"
        actions   = ["sqs:SendMessage"]
        resources = [var.queues.ingest.arn]
      },
      {
        # A body that is too large for an item goes here. One that is there is written anew: to look at its age is to read.
        sid       = "KeepPayloads"
        actions   = ["s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
    ])

    slack = concat(local.secret["slack"], local.keys, [
      {
        sid = "AnswerRequests"
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
        sid       = "FindRequests"
        actions   = ["dynamodb:Query"]
        resources = [var.table.index_arns["open_approvals"]]
      },
      {
        # Answers, and runs that people ask for.
        sid       = "SendAnswers"
        actions   = ["sqs:SendMessage"]
        resources = local.queue_arns
      },
      {
        sid       = "KeepPayloads"
        actions   = ["s3:GetObject", "s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
      {
        # Without this S3 answers "forbidden" where it means "not there".
        sid       = "TellWhichPayloadsAreMissing"
        actions   = ["s3:ListBucket"]
        resources = [var.payloads.arn]
      },
    ])

    sweep = concat(local.keys, [
      {
        sid = "WakeRunsAndSettleTheOutbox"
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
        sid       = "FindWhatIsDue"
        actions   = ["dynamodb:Query"]
        resources = [var.table.index_arns["due"]]
      },
      {
        sid       = "WakeWhatIsDue"
        actions   = ["sqs:SendMessage"]
        resources = local.queue_arns
      },
      {
        sid       = "ReadPayloads"
        actions   = ["s3:GetObject"]
        resources = ["${var.payloads.arn}/*"]
      },
    ])

    worker = concat(local.secret["worker"], local.keys, [
      {
        # All of the ledger, item by item: no scan, and nothing that changes the table itself.
        sid = "KeepTheLedger"
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
        # It sweeps too, beside the schedule.
        sid       = "FindWhatIsDue"
        actions   = ["dynamodb:Query"]
        resources = [var.table.index_arns["due"]]
      },
      {
        sid = "TakeAndSendMessages"
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
        sid       = "KeepPayloads"
        actions   = ["s3:GetObject", "s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
      {
        # It puts evidence where it stays. Reading it is the server's.
        sid       = "KeepEvidence"
        actions   = ["s3:PutObject", "s3:PutObjectRetention"]
        resources = ["${var.evidence.arn}/*"]
      },
      {
        # Without this S3 answers "forbidden" where it means "not there".
        sid       = "TellWhichPayloadsAreMissing"
        actions   = ["s3:ListBucket"]
        resources = [var.payloads.arn]
      },
    ])

    server = concat(local.keys, [
      {
        # What people and programs ask for is decided here and written as a worker writes it.
        sid = "KeepTheLedger"
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
        # Lists of runs, open requests, and what is overdue: all of them.
        sid       = "ReadTheIndexes"
        actions   = ["dynamodb:Query"]
        resources = values(var.table.index_arns)
      },
      {
        # It takes no message: workers do the work.
        sid       = "SendAndCountMessages"
        actions   = ["sqs:SendMessage", "sqs:GetQueueAttributes"]
        resources = local.queue_arns
      },
      {
        # SQS shows dead letters only by handing them out; each is given back.
        sid       = "ShowDeadLetters"
        actions   = ["sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"]
        resources = local.dead_arns
      },
      {
        sid       = "KeepPayloads"
        actions   = ["s3:GetObject", "s3:PutObject"]
        resources = ["${var.payloads.arn}/*"]
      },
      {
        sid       = "ReadEvidence"
        actions   = ["s3:GetObject"]
        resources = ["${var.evidence.arn}/*"]
      },
      {
        # Without this S3 answers "forbidden" where it means "not there".
        sid       = "TellWhichObjectsAreMissing"
        actions   = ["s3:ListBucket"]
        resources = [var.payloads.arn, var.evidence.arn]
      },
    ])
  }
}

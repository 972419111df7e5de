# A Lambda function from a zip with one file, `bootstrap`; its own role, its own log, its own alarms. No function is
# made anywhere else, so none is without them.

resource "aws_lambda_function" "this" {
  #checkov:skip=CKV_AWS_117:It speaks only to AWS and to Slack, over TLS and under its own role; in a network it would need rights over network interfaces that cannot be limited to one.
  #checkov:skip=CKV_AWS_272:The zip is made reproducibly (`cargo xtask package`) and its hash is in the plan; a signing profile is the account's to demand.
  function_name                  = var.name
  description                    = var.description
  role                           = aws_iam_role.this.arn
  filename                       = var.package
  source_code_hash               = filebase64sha256(var.package)
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [var.architecture]
  memory_size                    = var.memory_mb
  timeout                        = var.timeout_seconds
  reserved_concurrent_executions = var.reserved_concurrency
  kms_key_arn                    = var.kms_key_arn
  tags                           = var.tags

  environment {
    variables = var.environment
  }

  logging_config {
    log_format = "JSON"
    log_group  = aws_cloudwatch_log_group.this.name
  }

  tracing_config {
    mode = var.tracing ? "Active" : "PassThrough"
  }

  dynamic "dead_letter_config" {
    for_each = aws_sqs_queue.dead

    content {
      target_arn = dead_letter_config.value.arn
    }
  }

  # Lambda tries the dead-letter queue with the role when the function is made.
  depends_on = [aws_iam_role_policy.this]
}

resource "aws_lambda_function_event_invoke_config" "this" {
  count = var.asynchronous ? 1 : 0

  function_name                = aws_lambda_function.this.function_name
  maximum_event_age_in_seconds = 60
  maximum_retry_attempts       = 1
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# Calls that failed for good. There is no queue in front of it: what is asynchronous is the call. The next call does what
# this one left, so nobody has to send it again: it is kept for an hour, in which the alarm speaks, and then goes.
resource "aws_sqs_queue" "dead" {
  count = var.asynchronous ? 1 : 0

  name                              = "${var.name}-dead"
  message_retention_seconds         = 60 * 60
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  tags                              = var.tags
}

resource "aws_iam_role" "this" {
  name               = var.name
  description        = "What the function ${var.name} may do"
  assume_role_policy = data.aws_iam_policy_document.assume.json
  tags               = var.tags
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

resource "aws_iam_role_policy" "this" {
  name   = "listed"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.this.json
}

data "aws_iam_policy_document" "this" {
  dynamic "statement" {
    for_each = var.statements

    content {
      sid       = statement.value.sid
      actions   = statement.value.actions
      resources = statement.value.resources

      dynamic "condition" {
        for_each = length(statement.value.leading_keys) > 0 ? [statement.value.leading_keys] : []

        content {
          test     = "ForAllValues:StringLike"
          variable = "dynamodb:LeadingKeys"
          values   = condition.value
        }
      }

      # `ForAllValues` also holds where there is no key at all.
      dynamic "condition" {
        for_each = length(statement.value.leading_keys) > 0 ? ["false"] : []

        content {
          test     = "Null"
          variable = "dynamodb:LeadingKeys"
          values   = [condition.value]
        }
      }
    }
  }

  statement {
    sid       = "WriteItsLog"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this.arn}:log-stream:*"]
  }

  dynamic "statement" {
    for_each = aws_sqs_queue.dead

    content {
      sid       = "KeepItsDeadLetters"
      actions   = ["sqs:SendMessage"]
      resources = [statement.value.arn]
    }
  }

  dynamic "statement" {
    for_each = var.tracing ? ["tracing"] : []

    content {
      sid     = "SendTraces"
      actions = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
      # X-Ray knows no resource for these.
      resources = ["*"]
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "errors" {
  alarm_name          = "${var.name}-errors"
  alarm_description   = "The function ${var.name} failed; its log says why."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = aws_lambda_function.this.function_name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  alarm_name          = "${var.name}-throttles"
  alarm_description   = "Calls of the function ${var.name} are refused: its limit, or the account's, is reached."
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = aws_lambda_function.this.function_name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  count = var.asynchronous ? 1 : 0

  alarm_name          = "${var.name}-dead-letters"
  alarm_description   = "A call of the function ${var.name} failed for good within the last hour; its log says why. The next call does what this one left."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.dead[0].name }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

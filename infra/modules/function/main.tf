# A Lambda function with its role, log group and alarms, from a zip with one file, `bootstrap`. Every function is
# created by this module.

resource "aws_lambda_function" "this" {
  #checkov:skip=CKV_AWS_117:The function connects only to AWS and Slack, over TLS. In a VPC it would need permissions for network interfaces that cannot be limited to one resource.
  #checkov:skip=CKV_AWS_272:The zip is reproducible (`cargo xtask package`) and its hash is in the plan. Code signing is the decision of the account.
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

  # Lambda checks the role's access to the dead-letter queue when the function is created.
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

# The dead-letter queue of asynchronous invocations. The next invocation does the work of a failed one, so messages
# need no redrive. They are retained for one hour, which is long enough for the alarm.
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
  description        = "Execution role of the function ${var.name}"
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

      # `ForAllValues` is also true for a request without a key.
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
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this.arn}:log-stream:*"]
  }

  dynamic "statement" {
    for_each = aws_sqs_queue.dead

    content {
      sid       = "SendDeadLetters"
      actions   = ["sqs:SendMessage"]
      resources = [statement.value.arn]
    }
  }

  dynamic "statement" {
    for_each = var.tracing ? ["tracing"] : []

    content {
      sid     = "SendTraces"
      actions = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
      # These X-Ray actions support no resource.
      resources = ["*"]
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "errors" {
  alarm_name          = "${var.name}-errors"
  alarm_description   = "The function ${var.name} failed. Check its log."
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
  alarm_description   = "Invocations of the function ${var.name} are throttled: the concurrency limit of the function or of the account is reached."
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
  alarm_description   = "An invocation of the function ${var.name} failed after all retries within the last hour. Check its log. The next invocation does the missed work."
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

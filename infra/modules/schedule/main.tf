# Invokes a function on a schedule, with an alarm on missing invocations.

data "aws_caller_identity" "current" {}

resource "aws_scheduler_schedule" "this" {
  name                         = var.name
  description                  = "Invokes ${var.function_arn}"
  schedule_expression          = var.rate
  schedule_expression_timezone = "UTC"
  kms_key_arn                  = var.kms_key_arn

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = var.function_arn
    role_arn = aws_iam_role.this.arn

    # No retries, because the next scheduled invocation does the same work.
    retry_policy {
      maximum_event_age_in_seconds = 60
      maximum_retry_attempts       = 1
    }
  }
}

resource "aws_iam_role" "this" {
  name               = "${var.name}-schedule"
  description        = "Allows the schedule ${var.name} to invoke its function"
  assume_role_policy = data.aws_iam_policy_document.assume.json
  tags               = var.tags
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

resource "aws_iam_role_policy" "this" {
  name   = "listed"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.this.json
}

data "aws_iam_policy_document" "this" {
  statement {
    sid       = "InvokeFunction"
    actions   = ["lambda:InvokeFunction"]
    resources = [var.function_arn]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      sid       = "DecryptSchedule"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }
}

# Retries, deadlines and lost messages depend on this invocation, so its absence raises an alarm.
resource "aws_cloudwatch_metric_alarm" "silence" {
  alarm_name          = "${var.name}-silence"
  alarm_description   = "${var.function_name} was not invoked for ${var.silence_minutes} minutes. Due runs are not resumed by the schedule. Check the schedule and the function."
  namespace           = "AWS/Lambda"
  metric_name         = "Invocations"
  dimensions          = { FunctionName = var.function_name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = var.silence_minutes
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

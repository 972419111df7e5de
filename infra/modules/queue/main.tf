# A queue and its dead-letter queue. The programs append `-dead` to the URL of the queue to find the dead-letter queue,
# so both names are set here.
#
# The queue retains messages for four days, so that a fleet outage over a long weekend loses none. In the dead-letter
# queue, the age of a message still counts from its first send, and SQS retains messages for at most 14 days. So
# operators have at least ten days to inspect a dead-letter message.

resource "aws_sqs_queue" "this" {
  name                              = var.name
  visibility_timeout_seconds        = var.visibility_seconds
  message_retention_seconds         = 4 * 24 * 60 * 60
  max_message_size                  = 256 * 1024
  receive_wait_time_seconds         = 20
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  tags                              = var.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = var.receives_max
  })
}

resource "aws_sqs_queue" "dead" {
  name                              = "${var.name}-dead"
  message_retention_seconds         = 14 * 24 * 60 * 60
  max_message_size                  = 256 * 1024
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  tags                              = var.tags
}

# Only this queue may use the dead-letter queue, and messages can be redriven only to this queue.
resource "aws_sqs_queue_redrive_allow_policy" "dead" {
  queue_url = aws_sqs_queue.dead.id

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.this.arn]
  })
}

resource "aws_sqs_queue_policy" "tls_only" {
  for_each = { live = aws_sqs_queue.this, dead = aws_sqs_queue.dead }

  queue_url = each.value.id
  policy    = data.aws_iam_policy_document.tls_only[each.key].json
}

data "aws_iam_policy_document" "tls_only" {
  for_each = { live = aws_sqs_queue.this.arn, dead = aws_sqs_queue.dead.arn }

  statement {
    sid       = "DenyInsecureTransport"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [each.value]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  alarm_name          = "${var.name}-dead-letters"
  alarm_description   = "A message of ${var.name} was received ${var.receives_max} times without success and moved to the dead-letter queue. Inspect it with `countersign queue dead-letters --aws`, fix the cause, and redrive it with `countersign queue redrive --aws`. Set the COUNTERSIGN variables of the account first."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.dead.name }
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

resource "aws_cloudwatch_metric_alarm" "age" {
  alarm_name          = "${var.name}-age"
  alarm_description   = "The oldest message of ${var.name} is older than ${var.age_alarm_seconds} s: there are too few workers, or they make no progress."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = aws_sqs_queue.this.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.age_alarm_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

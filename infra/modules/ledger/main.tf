# The one table. Keys and indexes are the ones that `crates/store/src/aws/table.rs` reads and writes
# (docs/decisions/0014-one-table-on-dynamodb.md); tests/infra compares the two.

locals {
  # Sparse, and keys only: an index finds candidates, the item decides.
  indexes = {
    due            = { hash = "due_in", range = "due_at" }
    runs_by_tenant = { hash = "runs_of", range = "begun" }
    runs_by_status = { hash = "runs_in", range = "begun" }
    runs_by_record = { hash = "runs_on", range = "begun" }
    open_approvals = { hash = "open_of", range = "asked" }
  }

  attributes = {
    pk      = "S"
    sk      = "S"
    due_in  = "S"
    due_at  = "N"
    runs_of = "S"
    runs_in = "S"
    runs_on = "S"
    begun   = "S"
    open_of = "S"
    asked   = "S"
  }

  # Each operation that the programs use; the metric has no sum over all of them.
  operations = ["GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"]

  # An index that cannot keep up holds back the table's writes.
  throttles = merge(
    {
      reads  = { metric = "ReadThrottleEvents", index = null }
      writes = { metric = "WriteThrottleEvents", index = null }
    },
    { for name, index in local.indexes : "writes_${name}" => { metric = "WriteThrottleEvents", index = name } },
  )
}

resource "aws_dynamodb_table" "this" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  dynamic "attribute" {
    for_each = local.attributes

    content {
      name = attribute.key
      type = attribute.value
    }
  }

  dynamic "global_secondary_index" {
    for_each = local.indexes

    content {
      name            = global_secondary_index.key
      hash_key        = global_secondary_index.value.hash
      range_key       = global_secondary_index.value.range
      projection_type = "KEYS_ONLY"
    }
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = var.kms_key_arn
  }
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  alarm_name          = "${var.name}-ledger-throttles"
  alarm_description   = "DynamoDB refuses requests to ${var.name}: a key is hot, or the account's limit is reached. Nothing is lost; work waits."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 3
  datapoints_to_alarm = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  metric_query {
    id          = "all"
    expression  = "SUM(METRICS())"
    label       = "throttled requests"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.throttles

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = metric_query.value.metric
        period      = 60
        stat        = "Sum"
        dimensions = merge(
          { TableName = aws_dynamodb_table.this.name },
          metric_query.value.index == null ? {} : { GlobalSecondaryIndexName = metric_query.value.index },
        )
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "system_errors" {
  alarm_name          = "${var.name}-ledger-errors"
  alarm_description   = "DynamoDB answers requests to ${var.name} with errors of its own."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 3
  datapoints_to_alarm = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  metric_query {
    id          = "all"
    expression  = "SUM(METRICS())"
    label       = "system errors"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = toset(local.operations)

    content {
      id = lower(metric_query.value)

      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        period      = 60
        stat        = "Sum"
        dimensions = {
          TableName = aws_dynamodb_table.this.name
          Operation = metric_query.value
        }
      }
    }
  }
}

# The DynamoDB table. Its keys and indexes are those of `crates/store/src/aws/table.rs`
# (docs/decisions/0014-one-table-on-dynamodb.md); tests/infra compares the two.

locals {
  # Sparse indexes with keys only. The code reads the item of each match and checks it again.
  indexes = {
    due            = { hash = "due_pk", range = "due_at" }
    runs_by_tenant = { hash = "tenant_pk", range = "runs_sk" }
    runs_by_status = { hash = "status_pk", range = "runs_sk" }
    runs_by_record = { hash = "record_pk", range = "runs_sk" }
    open_approvals = { hash = "open_pk", range = "open_sk" }
  }

  attributes = {
    pk        = "S"
    sk        = "S"
    due_pk    = "S"
    due_at    = "N"
    tenant_pk = "S"
    status_pk = "S"
    record_pk = "S"
    runs_sk   = "S"
    open_pk   = "S"
    open_sk   = "S"
  }

  # The operations that the programs use. The metric has no total over all operations.
  operations = ["GetItem", "BatchGetItem", "Query", "PutItem", "BatchWriteItem", "UpdateItem", "DeleteItem", "TransactWriteItems"]

  # A throttled index also throttles writes to the table.
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
  alarm_description   = "DynamoDB throttles requests to ${var.name}: a partition key is hot, or an account quota is reached. Requests are retried, so runs are delayed but not lost."
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
  alarm_description   = "DynamoDB returns system errors (HTTP 500) for requests to ${var.name}."
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

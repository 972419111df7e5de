# The table is encrypted and recoverable, and has the indexes of docs/decisions/0014-one-table-on-dynamodb.md.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name             = "example"
  kms_key_arn      = "arn:aws:kms:us-east-1:123456789012:key/1"
  alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "table_is_encrypted_and_recoverable" {
  command = plan

  assert {
    condition     = aws_dynamodb_table.this.point_in_time_recovery[0].enabled
    error_message = "Point-in-time recovery is not enabled."
  }

  assert {
    condition     = aws_dynamodb_table.this.server_side_encryption[0].enabled && aws_dynamodb_table.this.server_side_encryption[0].kms_key_arn == var.kms_key_arn
    error_message = "The table is not encrypted with the key."
  }

  assert {
    condition     = aws_dynamodb_table.this.ttl[0].enabled
    error_message = "Expired items are not deleted."
  }

  assert {
    condition     = aws_dynamodb_table.this.deletion_protection_enabled
    error_message = "The table is not protected from deletion by default."
  }
}

run "table_has_the_agreed_indexes" {
  command = plan

  assert {
    condition = toset([for index in aws_dynamodb_table.this.global_secondary_index : join(" ", [index.name, index.hash_key, index.range_key, index.projection_type])]) == toset([
      "due due_pk due_at KEYS_ONLY",
      "open_approvals open_pk open_sk KEYS_ONLY",
      "runs_by_record record_pk runs_sk KEYS_ONLY",
      "runs_by_status status_pk runs_sk KEYS_ONLY",
      "runs_by_tenant tenant_pk runs_sk KEYS_ONLY",
    ])
    error_message = "The indexes are not those of the decision record."
  }
}

run "exactly_the_key_attributes_have_a_type" {
  command = plan

  assert {
    condition     = toset(aws_dynamodb_table.this.attribute[*].name) == setunion(["pk", "sk"], aws_dynamodb_table.this.global_secondary_index[*].hash_key, aws_dynamodb_table.this.global_secondary_index[*].range_key)
    error_message = "DynamoDB rejects a key attribute without a type, and an attribute that is not a key."
  }

  assert {
    condition     = [for attribute in aws_dynamodb_table.this.attribute : attribute.name if attribute.type != "S"] == ["due_at"]
    error_message = "Only `due_at` is a number."
  }
}

run "throttled_requests_and_errors_raise_an_alarm" {
  command = plan

  assert {
    condition     = alltrue([for alarm in [aws_cloudwatch_metric_alarm.throttles, aws_cloudwatch_metric_alarm.system_errors] : alarm.alarm_actions == toset(var.alarm_topic_arns)])
    error_message = "An alarm notifies no topic."
  }
}

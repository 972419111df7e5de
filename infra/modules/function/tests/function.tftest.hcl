# Every function has its alarms, and its role lists its permissions.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name             = "sweep"
  description      = "Resumes due runs"
  package          = "tests/placeholder.zip"
  environment      = {}
  statements       = [{ sid = "Send", actions = ["sqs:SendMessage"], resources = ["arn:aws:sqs:us-east-1:123456789012:steps"] }]
  kms_key_arn      = "arn:aws:kms:us-east-1:123456789012:key/1"
  alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "function_has_its_alarms" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.errors.metric_name == "Errors" && aws_cloudwatch_metric_alarm.errors.dimensions.FunctionName == aws_lambda_function.this.function_name
    error_message = "There is no alarm on Errors."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.errors.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on Errors notifies no topic."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.throttles.metric_name == "Throttles" && aws_cloudwatch_metric_alarm.throttles.dimensions.FunctionName == aws_lambda_function.this.function_name
    error_message = "There is no alarm on Throttles."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.throttles.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on Throttles notifies no topic."
  }
}

run "asynchronous_function_has_a_dead_letter_queue" {
  command = plan

  variables {
    asynchronous = true
  }

  assert {
    condition     = aws_sqs_queue.dead[0].name == "sweep-dead" && length(aws_lambda_function.this.dead_letter_config) == 1
    error_message = "Failed invocations are lost."
  }

  assert {
    condition     = aws_sqs_queue.dead[0].kms_master_key_id == var.kms_key_arn
    error_message = "The dead-letter queue is not encrypted with the key."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.dead_letters[0].metric_name == "ApproximateNumberOfMessagesVisible" && aws_cloudwatch_metric_alarm.dead_letters[0].dimensions.QueueName == aws_sqs_queue.dead[0].name
    error_message = "There is no alarm on ApproximateNumberOfMessagesVisible."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.dead_letters[0].alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on ApproximateNumberOfMessagesVisible notifies no topic."
  }
}

run "log_is_encrypted_and_has_a_retention" {
  command = plan

  assert {
    condition     = aws_cloudwatch_log_group.this.retention_in_days == 365 && aws_cloudwatch_log_group.this.kms_key_id == var.kms_key_arn
    error_message = "The log has no retention or is not encrypted with the key."
  }
}

run "rejects_a_wildcard_action" {
  command         = plan
  expect_failures = [var.statements]

  variables {
    statements = [{ sid = "Send", actions = ["sqs:*"], resources = ["arn:aws:sqs:us-east-1:123456789012:steps"] }]
  }
}

run "rejects_a_wildcard_resource" {
  command         = plan
  expect_failures = [var.statements]

  variables {
    statements = [{ sid = "Send", actions = ["dynamodb:Query"], resources = ["arn:aws:dynamodb:us-east-1:123456789012:table/example/index/*"] }]
  }
}

run "rejects_the_objects_of_every_bucket" {
  command         = plan
  expect_failures = [var.statements]

  variables {
    statements = [{ sid = "Send", actions = ["s3:GetObject"], resources = ["arn:aws:s3:::*/*"] }]
  }
}

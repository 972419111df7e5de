# The HTTP API logs requests, and errors raise an alarm.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

override_resource {
  target          = aws_apigatewayv2_api.this
  values          = { id = "api", execution_arn = "arn:aws:execute-api:us-east-1:123456789012:api" }
  override_during = plan
}

variables {
  name             = "example"
  webhook          = { name = "webhook", invoke_arn = "arn:aws:apigateway:webhook" }
  slack            = { name = "slack", invoke_arn = "arn:aws:apigateway:slack" }
  kms_key_arn      = "arn:aws:kms:us-east-1:123456789012:key/1"
  alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "log_is_encrypted_and_has_a_retention" {
  command = plan

  assert {
    condition     = aws_cloudwatch_log_group.this.retention_in_days == 365 && aws_cloudwatch_log_group.this.kms_key_id == var.kms_key_arn
    error_message = "The log has no retention or is not encrypted with the key."
  }
}

run "server_errors_raise_an_alarm" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.server_errors.metric_name == "5xx" && aws_cloudwatch_metric_alarm.server_errors.dimensions.ApiId == aws_apigatewayv2_api.this.id
    error_message = "There is no alarm on 5xx."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.server_errors.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on 5xx notifies no topic."
  }
}

run "access_log_has_no_headers_and_no_bodies" {
  command = plan

  assert {
    condition     = alltrue([for value in values(jsondecode(aws_apigatewayv2_stage.this.access_log_settings[0].format)) : !strcontains(lower(value), "header") && !strcontains(lower(value), "body")])
    error_message = "The access log contains headers or bodies."
  }
}

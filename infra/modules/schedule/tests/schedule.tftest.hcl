# Missing invocations raise an alarm.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name             = "sweep"
  function_name    = "sweep"
  function_arn     = "arn:aws:lambda:us-east-1:123456789012:function:sweep"
  alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "missing_invocations_raise_an_alarm" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.silence.metric_name == "Invocations" && aws_cloudwatch_metric_alarm.silence.treat_missing_data == "breaching"
    error_message = "There is no alarm on missing invocations."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.silence.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on missing invocations notifies no topic."
  }
}

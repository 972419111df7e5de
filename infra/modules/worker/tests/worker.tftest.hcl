# The worker is scaled by the messages that wait and by their age.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name        = "example"
  region      = "us-east-1"
  image       = "repository@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  vpc_id      = "vpc-1"
  subnet_ids  = ["subnet-1"]
  environment = {}
  statements  = [{ sid = "Send", actions = ["sqs:SendMessage"], resources = ["arn:aws:sqs:us-east-1:123456789012:steps"] }]
  queue_names = { ingest = "example-ingest", steps = "example-steps" }
}

run "backlog_counts_the_messages_of_every_queue" {
  command = plan

  assert {
    condition     = one([for metric in aws_appautoscaling_policy.depth.target_tracking_scaling_policy_configuration[0].customized_metric_specification[0].metrics : metric.expression if metric.return_data]) == "(waiting_ingest + waiting_steps) / IF(tasks > 0, tasks, 1)"
    error_message = "The backlog does not count every queue."
  }
}

run "age_counts_only_queues_with_visible_messages" {
  command = plan

  assert {
    condition     = toset([for query in aws_cloudwatch_metric_alarm.age.metric_query : query.expression if startswith(query.id, "late_")]) == toset(["IF(waiting_ingest > 0, age_ingest, 0)", "IF(waiting_steps > 0, age_steps, 0)"])
    error_message = "Messages in flight add tasks."
  }
}

run "rejects_a_queue_key_that_is_no_metric_id" {
  command         = plan
  expect_failures = [var.queue_names]

  variables {
    queue_names = { "Steps-1" = "example-steps" }
  }
}

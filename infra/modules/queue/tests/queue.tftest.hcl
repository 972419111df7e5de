# Every queue has a dead-letter queue with the name that the programs expect, and its alarms.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

override_resource {
  target          = aws_sqs_queue.dead
  values          = { arn = "arn:aws:sqs:us-east-1:123456789012:steps-dead" }
  override_during = plan
}

override_resource {
  target          = aws_sqs_queue.this
  values          = { arn = "arn:aws:sqs:us-east-1:123456789012:steps" }
  override_during = plan
}

variables {
  name             = "steps"
  kms_key_arn      = "arn:aws:kms:us-east-1:123456789012:key/1"
  alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "queue_has_a_dead_letter_queue" {
  command = plan

  assert {
    condition     = aws_sqs_queue.dead.name == "steps-dead"
    error_message = "The programs append `-dead` to the name of the queue."
  }

  assert {
    condition     = jsondecode(aws_sqs_queue.this.redrive_policy).deadLetterTargetArn == aws_sqs_queue.dead.arn
    error_message = "The queue does not send its dead letters to its dead-letter queue."
  }

  assert {
    condition     = jsondecode(aws_sqs_queue_redrive_allow_policy.dead.redrive_allow_policy).sourceQueueArns == [aws_sqs_queue.this.arn]
    error_message = "Another queue may use the dead-letter queue."
  }
}

run "dead_letters_raise_an_alarm" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.dead_letters.metric_name == "ApproximateNumberOfMessagesVisible" && aws_cloudwatch_metric_alarm.dead_letters.dimensions.QueueName == aws_sqs_queue.dead.name
    error_message = "There is no alarm on ApproximateNumberOfMessagesVisible."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.dead_letters.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on ApproximateNumberOfMessagesVisible notifies no topic."
  }
}

run "old_messages_raise_an_alarm" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.age.metric_name == "ApproximateAgeOfOldestMessage" && aws_cloudwatch_metric_alarm.age.dimensions.QueueName == aws_sqs_queue.this.name
    error_message = "There is no alarm on ApproximateAgeOfOldestMessage."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.age.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on ApproximateAgeOfOldestMessage notifies no topic."
  }
}

# SQS counts the retention from the time the message was sent, and an operator may be away for a week.
run "dead_letter_can_be_inspected_for_ten_days" {
  command = plan

  assert {
    condition     = aws_sqs_queue.dead.message_retention_seconds - aws_sqs_queue.this.message_retention_seconds >= 10 * 24 * 60 * 60
    error_message = "A dead letter may expire within ten days."
  }
}

run "both_queues_are_encrypted" {
  command = plan

  assert {
    condition     = alltrue([for queue in [aws_sqs_queue.this, aws_sqs_queue.dead] : queue.kms_master_key_id == var.kms_key_arn])
    error_message = "A queue is not encrypted with the key."
  }
}

run "rejects_the_name_of_a_dead_letter_queue" {
  command         = plan
  expect_failures = [var.name]

  variables {
    name = "steps-dead"
  }
}

output "topic_arn" {
  description = "ARN of the topic, for `alarm_topic_arns` of other modules."
  value       = aws_sns_topic.this.arn
}

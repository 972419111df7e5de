output "topic_arn" {
  description = "What the other modules take as `alarm_topic_arns`."
  value       = aws_sns_topic.this.arn
}

output "name" {
  description = "Name of the queue, for metrics."
  value       = aws_sqs_queue.this.name
}

output "arn" {
  description = "ARN of the queue."
  value       = aws_sqs_queue.this.arn
}

output "url" {
  description = "URL of the queue, for COUNTERSIGN_QUEUE_INGEST, _DECISIONS or _STEPS."
  value       = aws_sqs_queue.this.id
}

output "dead_arn" {
  description = "ARN of the dead-letter queue."
  value       = aws_sqs_queue.dead.arn
}

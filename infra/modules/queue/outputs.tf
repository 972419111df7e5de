output "name" {
  description = "The queue's name, as its metrics know it."
  value       = aws_sqs_queue.this.name
}

output "arn" {
  description = "The queue's ARN."
  value       = aws_sqs_queue.this.arn
}

output "url" {
  description = "The queue's URL: COUNTERSIGN_QUEUE_INGEST, _DECISIONS or _STEPS."
  value       = aws_sqs_queue.this.id
}

output "dead_arn" {
  description = "The ARN of the queue of its dead letters."
  value       = aws_sqs_queue.dead.arn
}

output "name" {
  description = "The bucket's name, once versions are kept: what needs them waits for this."
  value       = aws_s3_bucket.this.id
  depends_on  = [aws_s3_bucket_versioning.this]
}

output "arn" {
  description = "The bucket's ARN."
  value       = aws_s3_bucket.this.arn
}

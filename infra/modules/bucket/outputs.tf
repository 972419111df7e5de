output "name" {
  description = "The bucket's name, once versions are kept and its policy is in force: what needs them waits for this."
  value       = aws_s3_bucket.this.id
  depends_on  = [aws_s3_bucket_versioning.this, aws_s3_bucket_policy.this]
}

output "arn" {
  description = "The bucket's ARN."
  value       = aws_s3_bucket.this.arn
}

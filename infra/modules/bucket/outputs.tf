output "name" {
  description = "Name of the bucket. It depends on versioning and on the bucket policy, so resources that use this output are created after them."
  value       = aws_s3_bucket.this.id
  depends_on  = [aws_s3_bucket_versioning.this, aws_s3_bucket_policy.this]
}

output "arn" {
  description = "ARN of the bucket."
  value       = aws_s3_bucket.this.arn
}

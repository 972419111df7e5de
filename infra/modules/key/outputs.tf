output "arn" {
  description = "ARN of the key. It depends on the key policy, so resources that use this output can use the key."
  value       = aws_kms_key.this.arn
  depends_on  = [aws_kms_key_policy.this]
}

output "arn" {
  description = "The key, once its policy is in force: whoever waits for this can use it."
  value       = aws_kms_key.this.arn
  depends_on  = [aws_kms_key_policy.this]
}

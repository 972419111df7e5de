# Evidence is locked and never expires.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name      = "example"
  keep_days = 2557
  lock_mode = "COMPLIANCE"
}

run "evidence_is_locked" {
  command = plan

  assert {
    condition     = aws_s3_bucket_object_lock_configuration.this.rule[0].default_retention[0].mode == "COMPLIANCE" && aws_s3_bucket_object_lock_configuration.this.rule[0].default_retention[0].days == 2557
    error_message = "Evidence can be deleted before its retention ends."
  }
}

run "evidence_does_not_expire" {
  command = plan

  assert {
    condition     = alltrue([for rule in aws_s3_bucket_lifecycle_configuration.this.rule : length(rule.expiration) == 0 && length(rule.noncurrent_version_expiration) == 0])
    error_message = "Evidence expires."
  }
}

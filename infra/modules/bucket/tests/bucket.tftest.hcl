# Every bucket is encrypted, private and versioned.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

override_resource {
  target          = aws_s3_bucket.this
  values          = { id = "example" }
  override_during = plan
}

variables {
  name        = "example"
  kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/1"
}

run "bucket_is_private" {
  command = plan

  assert {
    condition     = alltrue([aws_s3_bucket_public_access_block.this.block_public_acls, aws_s3_bucket_public_access_block.this.block_public_policy, aws_s3_bucket_public_access_block.this.ignore_public_acls, aws_s3_bucket_public_access_block.this.restrict_public_buckets])
    error_message = "The bucket can be made public."
  }

  assert {
    condition     = alltrue([for setting in [aws_s3_bucket_public_access_block.this, aws_s3_bucket_versioning.this, aws_s3_bucket_server_side_encryption_configuration.this, aws_s3_bucket_policy.this] : setting.bucket == aws_s3_bucket.this.id])
    error_message = "A setting belongs to another bucket."
  }
}

run "bucket_is_versioned" {
  command = plan

  assert {
    condition     = aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled"
    error_message = "Versioning is not enabled."
  }
}

run "bucket_is_encrypted_with_the_key" {
  command = plan

  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default[0].sse_algorithm == "aws:kms"
    error_message = "Objects are not encrypted with KMS."
  }

  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default[0].kms_master_key_id == var.kms_key_arn
    error_message = "Objects are encrypted with another key."
  }
}

run "access_log_of_a_load_balancer_uses_sse_s3" {
  command = plan

  variables {
    takes_balancer_logs = true
    kms_key_arn         = null
  }

  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default[0].sse_algorithm == "AES256"
    error_message = "A load balancer cannot write to a bucket that is encrypted with KMS."
  }
}

run "rejects_a_key_for_the_access_log_of_a_load_balancer" {
  command         = plan
  expect_failures = [var.kms_key_arn]

  variables {
    takes_balancer_logs = true
  }
}

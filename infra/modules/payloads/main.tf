# The bucket for data that is too large for a table item or a message, without Object Lock. Payloads of runs expire:
# evidence contains only their hashes and verifies without them. Item bodies, such as plans and policies, have another
# prefix and do not expire.

module "bucket" {
  source = "../bucket"

  name              = var.name
  kms_key_arn       = var.kms_key_arn
  access_log_bucket = var.access_log_bucket
  tags              = var.tags
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = module.bucket.name

  # The key prefix of payloads, as in crates/store/src/aws/s3.rs.
  rule {
    id     = "expire"
    status = "Enabled"

    filter {
      prefix = "payloads/"
    }

    expiration {
      days = var.keep_days
    }
  }

  rule {
    id     = "tidy"
    status = "Enabled"
    filter {}

    # Keys are content hashes, so a noncurrent version was deleted, or was written again to restart its expiration.
    noncurrent_version_expiration {
      noncurrent_days = 7
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

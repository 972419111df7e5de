# What is too large for an item or a message. Nothing is locked here, and what runs work with expires: evidence holds
# hashes of it, and stands without it. Bodies of items, such as plans and policies, stand under another prefix and stay.

module "bucket" {
  source = "../bucket"

  name              = var.name
  kms_key_arn       = var.kms_key_arn
  access_log_bucket = var.access_log_bucket
  tags              = var.tags
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = module.bucket.name

  # How keys of payloads begin: crates/store/src/aws/s3.rs.
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

    # Keys are hashes of contents, so an older version is one that was deleted, or put again so that its days begin anew.
    noncurrent_version_expiration {
      noncurrent_days = 7
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

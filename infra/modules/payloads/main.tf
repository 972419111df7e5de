# What is too large for an item or a message. Nothing is locked here, and everything expires: evidence holds
# hashes of it, and stands without it.

module "bucket" {
  source = "../bucket"

  name              = var.name
  kms_key_arn       = var.kms_key_arn
  access_log_bucket = var.access_log_bucket
  tags              = var.tags
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = module.bucket.name

  rule {
    id     = "expire"
    status = "Enabled"
    filter {}

    expiration {
      days = var.keep_days
    }

    # Keys are hashes of contents, so an older version can only be one that was deleted.
    noncurrent_version_expiration {
      noncurrent_days = 7
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

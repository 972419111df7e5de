# The bucket for evidence bundles. Object Lock protects each object from changes and deletion until its retention ends;
# in compliance mode also from the root user of the account.

module "bucket" {
  source = "../bucket"

  name              = var.name
  object_lock       = true
  kms_key_arn       = var.kms_key_arn
  access_log_bucket = var.access_log_bucket
  tags              = var.tags
}

resource "aws_s3_bucket_object_lock_configuration" "this" {
  bucket = module.bucket.name

  rule {
    default_retention {
      mode = var.lock_mode
      days = var.keep_days
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = module.bucket.name

  # Evidence is written once and rarely read. It never expires.
  rule {
    id     = "to-cheaper-storage"
    status = "Enabled"
    filter {}

    transition {
      days          = var.archive_after_days
      storage_class = "GLACIER_IR"
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

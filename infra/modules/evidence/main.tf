# Where bundles go. Each object is locked when it is written: nobody changes or deletes it before its time, in
# compliance mode not even the account's root.

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

  # Evidence is written once and read seldom; it is not deleted here, whatever its age.
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

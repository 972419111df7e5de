# What every bucket of ours has: versions, encryption, nothing public, nothing in the clear. `evidence`, `payloads` and
# `server` say the rest.

data "aws_caller_identity" "current" {}

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_145:With KMS, but for the log of a load balancer, which can write under S3's own key alone; tests/infra holds that nobody else asks for that.
  #checkov:skip=CKV_AWS_144:A copy in a second region is a choice with a bill; what is lost with a region is said in infra/README.md.
  #checkov:skip=CKV2_AWS_62:Nobody waits for an object: whoever writes one records it in the ledger, which is what others read.
  #checkov:skip=CKV2_AWS_61:What becomes of objects with time differs: `evidence`, `payloads` and `server`, the only callers, each have a lifecycle.
  bucket              = var.name
  object_lock_enabled = var.object_lock
  tags                = var.tags
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    # One key for many objects: a tenth of a per cent of the calls to KMS.
    bucket_key_enabled = !var.takes_balancer_logs

    apply_server_side_encryption_by_default {
      # A load balancer writes its log under S3's own key and no other.
      sse_algorithm     = var.takes_balancer_logs ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_logging" "this" {
  count = var.access_log_bucket == null ? 0 : 1

  bucket        = aws_s3_bucket.this.id
  target_bucket = var.access_log_bucket
  target_prefix = "${var.name}/"
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id
  policy = data.aws_iam_policy_document.bucket.json

  # Both are writes to the same bucket, and S3 answers the second with a conflict.
  depends_on = [aws_s3_bucket_public_access_block.this]
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "NothingInTheClear"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }

  dynamic "statement" {
    for_each = var.takes_balancer_logs ? ["balancers"] : []

    content {
      sid       = "WrittenByLoadBalancersOfTheAccount"
      actions   = ["s3:PutObject"]
      resources = ["${aws_s3_bucket.this.arn}/AWSLogs/${data.aws_caller_identity.current.account_id}/*"]

      principals {
        type        = "Service"
        identifiers = ["logdelivery.elasticloadbalancing.amazonaws.com"]
      }
    }
  }
}

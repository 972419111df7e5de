# The common settings of all buckets: versioning, encryption, no public access, TLS only. `evidence`, `payloads` and
# `server` add the rest.

data "aws_caller_identity" "current" {}

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_145:KMS is used except for the access log of a load balancer, which supports only SSE-S3. tests/infra checks that no other bucket uses SSE-S3.
  #checkov:skip=CKV_AWS_144:Cross-region replication is optional because of its cost. infra/README.md describes the risk.
  #checkov:skip=CKV2_AWS_62:Event notifications are not needed. A program that writes an object records it in the ledger.
  #checkov:skip=CKV2_AWS_61:The callers `evidence`, `payloads` and `server` each define their own lifecycle.
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
    # An S3 bucket key reduces the number of KMS requests by 99.9 %.
    bucket_key_enabled = !var.takes_balancer_logs

    apply_server_side_encryption_by_default {
      # The access log of a load balancer supports only SSE-S3.
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

  # Concurrent changes of the same bucket fail with a conflict.
  depends_on = [aws_s3_bucket_public_access_block.this]
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "DenyInsecureTransport"
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
      sid       = "AllowLoadBalancerLogDelivery"
      actions   = ["s3:PutObject"]
      resources = ["${aws_s3_bucket.this.arn}/AWSLogs/${data.aws_caller_identity.current.account_id}/*"]

      principals {
        type        = "Service"
        identifiers = ["logdelivery.elasticloadbalancing.amazonaws.com"]
      }
    }
  }
}

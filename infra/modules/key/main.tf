# One customer managed KMS key for all data of a deployment. The key policy lists every action. IAM policies of the
# account decide who may use the key. AWS services may use it only for the logs, alarms and budgets of this account.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  root_arn   = "arn:${data.aws_partition.current.partition}:iam::${local.account_id}:root"

  # Actions that CloudWatch Logs and the roles of this account may perform with the key.
  use = [
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:DescribeKey",
  ]
}

resource "aws_kms_key" "this" {
  description             = "Encrypts the data of ${var.name}"
  enable_key_rotation     = true
  rotation_period_in_days = var.rotation_days
  deletion_window_in_days = 30
  tags                    = var.tags

  # Evidence with a retention of years can be read only with this key, and a key that is scheduled for deletion cannot
  # decrypt. So `terraform destroy` must not delete it. infra/README.md describes how to delete a deployment.
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}

# A separate resource, so that its statements can name the key instead of `*`.
resource "aws_kms_key_policy" "this" {
  key_id = aws_kms_key.this.key_id
  policy = data.aws_iam_policy_document.key.json
}

data "aws_iam_policy_document" "key" {
  statement {
    sid       = "AllowAccountAdministration"
    resources = [aws_kms_key.this.arn]
    actions = [
      "kms:CancelKeyDeletion",
      "kms:CreateAlias",
      "kms:DeleteAlias",
      "kms:DescribeKey",
      "kms:DisableKey",
      "kms:DisableKeyRotation",
      "kms:EnableKey",
      "kms:EnableKeyRotation",
      "kms:GetKeyPolicy",
      "kms:GetKeyRotationStatus",
      "kms:ListGrants",
      "kms:ListKeyPolicies",
      "kms:ListResourceTags",
      "kms:ListRetirableGrants",
      "kms:PutKeyPolicy",
      "kms:RevokeGrant",
      "kms:RotateKeyOnDemand",
      "kms:ScheduleKeyDeletion",
      "kms:TagResource",
      "kms:UntagResource",
      "kms:UpdateAlias",
      "kms:UpdateKeyDescription",
    ]

    principals {
      type        = "AWS"
      identifiers = [local.root_arn]
    }
  }

  statement {
    sid       = "AllowUseByAccountRoles"
    resources = [aws_kms_key.this.arn]
    actions   = local.use

    principals {
      type        = "AWS"
      identifiers = [local.root_arn]
    }
  }

  # DynamoDB, Lambda and other services need a grant for encrypted resources.
  statement {
    sid       = "AllowGrantsForAwsResources"
    resources = [aws_kms_key.this.arn]
    actions   = ["kms:CreateGrant"]

    principals {
      type        = "AWS"
      identifiers = [local.root_arn]
    }

    condition {
      test     = "Bool"
      variable = "kms:GrantIsForAWSResource"
      values   = ["true"]
    }
  }

  statement {
    sid       = "AllowCloudWatchLogs"
    resources = [aws_kms_key.this.arn]
    actions   = local.use

    principals {
      type        = "Service"
      identifiers = ["logs.${var.region}.amazonaws.com"]
    }

    condition {
      test     = "ArnLike"
      variable = "kms:EncryptionContext:aws:logs:arn"
      values   = ["arn:${data.aws_partition.current.partition}:logs:${var.region}:${local.account_id}:log-group:*"]
    }
  }

  # Needed to publish alarms and budget notifications to the encrypted topic.
  statement {
    sid       = "AllowAlarmsAndBudgets"
    resources = [aws_kms_key.this.arn]
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]

    principals {
      type        = "Service"
      identifiers = ["cloudwatch.amazonaws.com", "budgets.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }
  }
}

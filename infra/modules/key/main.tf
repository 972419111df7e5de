# One customer key for what a deployment keeps. Its policy names every action; the account's own IAM decides who
# holds them, and services may use it only for this account's logs, alarms and budgets.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  root_arn   = "arn:${data.aws_partition.current.partition}:iam::${local.account_id}:root"

  # What CloudWatch Logs, and whoever holds a role in this account, does with a key.
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
  description             = "What ${var.name} keeps"
  enable_key_rotation     = true
  rotation_period_in_days = var.rotation_days
  deletion_window_in_days = 30
  tags                    = var.tags

  # Evidence that is locked for years is read with this key alone. A key that is to be deleted opens nothing from that
  # moment on, so no `destroy` takes it along; infra/README.md says how a deployment is deleted.
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}

# A policy of its own, so that its statements can name the key instead of `*`.
resource "aws_kms_key_policy" "this" {
  key_id = aws_kms_key.this.key_id
  policy = data.aws_iam_policy_document.key.json
}

data "aws_iam_policy_document" "key" {
  statement {
    sid       = "AdministeredByTheAccount"
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
    sid       = "UsedByRolesOfTheAccount"
    resources = [aws_kms_key.this.arn]
    actions   = local.use

    principals {
      type        = "AWS"
      identifiers = [local.root_arn]
    }
  }

  # DynamoDB, Lambda and others keep a grant for as long as they hold something that is encrypted.
  statement {
    sid       = "GrantedToServicesByTheAccount"
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
    sid       = "UsedForLogGroupsOfTheAccount"
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

  # An alarm or a budget cannot speak to an encrypted topic otherwise.
  statement {
    sid       = "UsedByAlarmsAndBudgetsOfTheAccount"
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

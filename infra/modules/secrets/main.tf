# One secret for each program, so that no program can read another's. Terraform makes the empty place; a value
# that it set would stand in its state, so people put the values in (infra/README.md says how).

resource "aws_secretsmanager_secret" "this" {
  #checkov:skip=CKV2_AWS_57:These are issued by other systems (Slack, ServiceNow, GitHub), where no function of ours can renew them; infra/README.md says how people do.
  for_each = var.programs

  name        = "${var.name}/${each.value}"
  description = "One JSON object, name to value, for the program `${each.value}`"
  kms_key_id  = var.kms_key_arn
  tags        = var.tags
}

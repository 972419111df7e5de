# One secret for each program, so that no program can read the secret of another one. Terraform creates the secrets
# without values, because values would be stored in the state. Operators set the values; see infra/README.md.

resource "aws_secretsmanager_secret" "this" {
  #checkov:skip=CKV2_AWS_57:Slack, ServiceNow and GitHub issue these credentials, and a rotation function cannot renew them. infra/README.md describes the manual rotation.
  for_each = var.programs

  name        = "${var.name}/${each.value}"
  description = "JSON object with the secrets of the program `${each.value}`"
  kms_key_id  = var.kms_key_arn
  tags        = var.tags
}

# Only the payloads of runs expire.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name      = "example"
  keep_days = 180
}

run "only_payloads_expire" {
  command = plan

  assert {
    condition     = [for rule in aws_s3_bucket_lifecycle_configuration.this.rule : [rule.filter[0].prefix, rule.expiration[0].days] if length(rule.expiration) > 0] == [["payloads/", 180]]
    error_message = "Objects other than payloads expire, or payloads do not."
  }
}

run "rejects_a_retention_of_a_week" {
  command         = plan
  expect_failures = [var.keep_days]

  variables {
    keep_days = 7
  }
}

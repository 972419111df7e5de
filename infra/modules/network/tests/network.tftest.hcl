# The flow log is encrypted, and only the VPC reaches its endpoints.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  name        = "example"
  region      = "us-east-1"
  zones       = ["us-east-1a", "us-east-1b"]
  cidr_block  = "10.0.0.0/16"
  kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/1"
}

run "log_is_encrypted_and_has_a_retention" {
  command = plan

  assert {
    condition     = aws_cloudwatch_log_group.flows.retention_in_days == 365 && aws_cloudwatch_log_group.flows.kms_key_id == var.kms_key_arn
    error_message = "The log has no retention or is not encrypted with the key."
  }
}

run "only_the_vpc_reaches_the_endpoints" {
  command = plan

  assert {
    condition     = aws_vpc_security_group_ingress_rule.endpoints.cidr_ipv4 == var.cidr_block && aws_vpc_security_group_ingress_rule.endpoints.from_port == 443 && aws_vpc_security_group_ingress_rule.endpoints.to_port == 443
    error_message = "The endpoints accept other traffic than HTTPS from the VPC."
  }
}

run "descriptions_are_valid_for_ec2" {
  command = plan

  assert {
    condition     = alltrue([for described in [aws_security_group.endpoints, aws_vpc_security_group_ingress_rule.endpoints] : can(regex("^[a-zA-Z0-9 ._:/()#,@\\[\\]+=&;{}!$*-]{1,255}$", described.description))])
    error_message = "EC2 rejects the description when the rule is created."
  }
}

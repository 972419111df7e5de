# Plans the example with a mocked provider. The plan needs no account and checks the schema of the provider.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  emails         = ["ops@example.com"]
  image          = "123456789012.dkr.ecr.us-east-1.amazonaws.com/countersign-worker@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  repository_arn = "arn:aws:ecr:us-east-1:123456789012:repository/countersign-worker"
  vpc_id         = "vpc-1"
  subnet_ids     = ["subnet-1", "subnet-2"]
  sources        = "[]"
  systems        = "{}"
}

run "plans_without_a_server" {
  command = plan

  assert {
    condition     = length(module.server) == 0
    error_message = "The plan contains a server although `server` is not set."
  }
}

run "plans_with_a_server" {
  command = plan

  variables {
    server = {
      image               = "123456789012.dkr.ecr.us-east-1.amazonaws.com/countersign-server@sha256:0000000000000000000000000000000000000000000000000000000000000000"
      certificate_arn     = "arn:aws:acm:us-east-1:123456789012:certificate/1"
      ingress_cidr_blocks = ["203.0.113.0/24"]
      secret_names        = ["SESSION_SECRET"]
    }
  }

  assert {
    condition     = length(module.server) == 1
    error_message = "The plan contains no server although `server` is set."
  }
}

run "rejects_an_empty_list_of_emails" {
  command         = plan
  expect_failures = [var.emails]

  variables {
    emails = []
  }
}

run "rejects_packages_of_another_architecture" {
  command         = plan
  expect_failures = [var.packages]

  variables {
    architecture = "x86_64"
  }
}

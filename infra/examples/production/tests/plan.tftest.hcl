# Plans the example with a mocked provider. The plan needs no account and checks the schema of the provider.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  emails  = ["ops@example.com"]
  image   = "123456789012.dkr.ecr.us-east-1.amazonaws.com/countersign-worker@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  sources = "[{ tenant: acme }]"
  systems = "{}"
  tenants = ["acme"]
  server = {
    image               = "123456789012.dkr.ecr.us-east-1.amazonaws.com/countersign-server@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    certificate_arn     = "arn:aws:acm:us-east-1:123456789012:certificate/1"
    ingress_cidr_blocks = ["203.0.113.0/24"]
    secret_names        = ["SESSION_SECRET"]
  }
}

run "plans" {
  command = plan
}

run "plans_with_the_smallest_cidr_block" {
  command = plan

  variables {
    cidr_block = "10.40.0.0/19"
  }
}

run "rejects_a_cidr_block_that_is_too_small" {
  command         = plan
  expect_failures = [var.cidr_block]

  variables {
    cidr_block = "10.40.0.0/20"
  }
}

run "rejects_zones_of_another_region" {
  command         = plan
  expect_failures = [var.zones]

  variables {
    region = "eu-central-1"
  }
}

run "rejects_a_single_worker" {
  command         = plan
  expect_failures = [var.tasks]

  variables {
    tasks = { min = 1, max = 3 }
  }
}

run "rejects_an_empty_list_of_tenants" {
  command         = plan
  expect_failures = [var.tenants]

  variables {
    tenants = []
  }
}

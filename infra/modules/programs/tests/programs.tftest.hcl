# What the programs are told and may do, evaluated. It needs no provider, so it runs on a closed network too.

variables {
  table = {
    name = "ledger"
    arn  = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger"
    index_arns = {
      due            = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger/index/due"
      open_approvals = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger/index/open_approvals"
      runs_by_record = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger/index/runs_by_record"
      runs_by_status = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger/index/runs_by_status"
      runs_by_tenant = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger/index/runs_by_tenant"
    }
  }
  queues = {
    ingest = {
      arn      = "arn:aws:sqs:us-east-1:123456789012:ingest"
      url      = "https://queue/ingest"
      dead_arn = "arn:aws:sqs:us-east-1:123456789012:ingest-dead"
    }
    decisions = {
      arn      = "arn:aws:sqs:us-east-1:123456789012:decisions"
      url      = "https://queue/decisions"
      dead_arn = "arn:aws:sqs:us-east-1:123456789012:decisions-dead"
    }
    steps = {
      arn      = "arn:aws:sqs:us-east-1:123456789012:steps"
      url      = "https://queue/steps"
      dead_arn = "arn:aws:sqs:us-east-1:123456789012:steps-dead"
    }
  }
  payloads = { name = "payloads", arn = "arn:aws:s3:::payloads" }
  evidence = { name = "evidence", arn = "arn:aws:s3:::evidence", keep_days = 30, lock_mode = "GOVERNANCE" }
  secret_arns = {
    webhook = "arn:aws:secretsmanager:us-east-1:123456789012:secret:webhook"
    slack   = "arn:aws:secretsmanager:us-east-1:123456789012:secret:slack"
    worker  = "arn:aws:secretsmanager:us-east-1:123456789012:secret:worker"
  }
  sources = "[]"
  systems = "slack: {}"
}

run "each_program_reads_its_own_secret_and_no_other" {
  command = plan

  assert {
    condition = alltrue([for program, statements in output.statements : [
      for statement in statements : statement.resources if contains(statement.actions, "secretsmanager:GetSecretValue")
    ] == [[var.secret_arns[program]]] if contains(keys(var.secret_arns), program)])
    error_message = "A program may read the secret of another."
  }

  assert {
    condition     = alltrue([for program, environment in output.environment : environment["COUNTERSIGN_SECRET"] == var.secret_arns[program] if contains(keys(var.secret_arns), program)])
    error_message = "A program is pointed to the secret of another."
  }
}

run "the_server_and_the_sweep_read_no_secret_themselves" {
  command = plan

  assert {
    condition = alltrue([for program in ["server", "sweep"] :
      !contains(flatten(output.statements[program][*].actions), "secretsmanager:GetSecretValue")
    ])
    error_message = "The role of the server, for which ECS reads a secret, or of the sweep, which has none, may read one."
  }

  assert {
    condition     = alltrue([for program in ["server", "sweep"] : !contains(keys(output.environment[program]), "COUNTERSIGN_SECRET")])
    error_message = "The server or the sweep is pointed to a secret that it does not read."
  }
}

run "the_server_takes_no_message_and_loses_no_dead_letter" {
  command = plan

  assert {
    condition = alltrue([for statement in output.statements["server"] :
      alltrue([for arn in statement.resources : endswith(arn, "-dead")])
      if contains(statement.actions, "sqs:ReceiveMessage")
    ])
    error_message = "The server may take messages that workers wait for."
  }

  assert {
    condition     = !contains(flatten(output.statements["server"][*].actions), "sqs:DeleteMessage")
    error_message = "The server may delete messages."
  }
}

run "the_webhook_function_is_fenced_to_its_tenants" {
  command = plan

  variables {
    tenants = ["acme", "globex"]
  }

  assert {
    condition = alltrue([for statement in output.statements["webhook"] :
      tolist(statement.leading_keys) == tolist(["acme#*", "globex#*"])
      if contains(statement.resources, var.table.arn)
    ])
    error_message = "The webhook function may touch the items of a tenant it is not for."
  }

  assert {
    condition     = anytrue([for statement in output.statements["webhook"] : contains(statement.resources, var.table.arn)])
    error_message = "The webhook function cannot write its inbox."
  }
}

run "each_program_reads_the_indexes_that_it_asks_and_no_other" {
  command = plan

  assert {
    condition = {
      for program, statements in output.statements : program => join(" ", sort([
        for arn in flatten(statements[*].resources) : trimprefix(arn, "${var.table.arn}/index/")
        if startswith(arn, "${var.table.arn}/index/")
      ]))
      } == {
      webhook = ""
      slack   = "open_approvals"
      sweep   = "due"
      worker  = "due"
      server  = "due open_approvals runs_by_record runs_by_status runs_by_tenant"
    }
    error_message = "A program may ask an index that it has no question for, or may not ask one that it needs."
  }
}

run "sources_and_systems_of_three_thousand_bytes_are_taken" {
  command = plan

  variables {
    sources = format("x%02997d", 0)
    systems = format("x%02997d", 0)
  }

  assert {
    condition     = alltrue([for program in ["webhook", "slack"] : length(jsonencode(output.environment[program])) <= 4096])
    error_message = "The environment of a function is more than Lambda holds."
  }
}

run "sources_that_leave_no_room_for_the_rest_are_refused" {
  command = plan

  variables {
    # The ends of these lines count twice.
    sources = join("\n", [for _ in range(1000) : "xx"])
  }

  expect_failures = [var.sources]
}

run "systems_that_leave_no_room_for_the_rest_are_refused" {
  command = plan

  variables {
    systems = format("x%02998d", 0)
  }

  expect_failures = [var.systems]
}

run "a_tenant_is_one_tenant" {
  command = plan

  variables {
    tenants = ["*"]
  }

  expect_failures = [var.tenants]
}

run "a_source_whose_tenant_is_fenced_out_is_refused" {
  command = plan

  variables {
    tenants = ["acme"]
    sources = <<-YAML
      - { tenant: acme, source: servicenow, scheme: hmac, secret: ACME }
      - { tenant: globex, source: github, scheme: github, secret: GLOBEX, previous: { secret: OLD, until: 2030-01-01T00:00:00Z } }
    YAML
  }

  expect_failures = [var.sources]
}

run "a_source_without_a_tenant_hides_no_other" {
  command = plan

  variables {
    tenants = ["acme"]
    sources = <<-YAML
      - { source: servicenow, scheme: hmac, secret: ACME }
      - { tenant: globex, source: github, scheme: github, secret: GLOBEX }
    YAML
  }

  expect_failures = [var.sources]
}

run "sources_of_the_tenants_that_are_named_are_taken" {
  command = plan

  variables {
    tenants = ["acme", "globex"]
    sources = <<-YAML
      - { tenant: acme, source: servicenow, scheme: hmac, secret: ACME }
      - { tenant: globex, source: github, scheme: github, secret: GLOBEX, previous: { secret: OLD, until: 2030-01-01T00:00:00Z } }
    YAML
  }

  assert {
    condition     = length(output.statements["webhook"]) > 0
    error_message = "The webhook function may do nothing."
  }
}

run "the_server_reads_evidence_and_only_the_worker_writes_it" {
  command = plan

  assert {
    condition = [for program, statements in output.statements : program
      if anytrue([for arn in flatten(statements[*].resources) : startswith(arn, var.evidence.arn)])
    ] == ["server", "worker"]
    error_message = "Somebody other than server and worker may touch evidence."
  }

  assert {
    condition = [for program, statements in output.statements : program
      if anytrue([for statement in statements :
        contains(statement.actions, "s3:PutObject") && contains(statement.resources, "${var.evidence.arn}/*")
      ])
    ] == ["worker"]
    error_message = "Somebody other than the worker may write evidence."
  }
}

run "with_a_customer_key_everybody_may_use_it" {
  command = plan

  variables {
    kms_key_arns = ["arn:aws:kms:us-east-1:123456789012:key/1"]
  }

  assert {
    condition     = alltrue([for statements in output.statements : contains(flatten(statements[*].resources), "arn:aws:kms:us-east-1:123456789012:key/1")])
    error_message = "A program cannot read what is encrypted with the key."
  }
}

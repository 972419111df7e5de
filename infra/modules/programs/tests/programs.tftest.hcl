# Tests of the environment variables and IAM statements of each program. They need no provider and no network.

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
  systems = "connections: []"
}

run "program_reads_only_its_own_secret" {
  command = plan

  assert {
    condition = alltrue([for program, statements in output.statements : [
      for statement in statements : statement.resources if contains(statement.actions, "secretsmanager:GetSecretValue")
    ] == [[var.secret_arns[program]]] if contains(keys(var.secret_arns), program)])
    error_message = "A program has access to the secret of another program."
  }

  assert {
    condition     = alltrue([for program, environment in output.environment : environment["COUNTERSIGN_SECRET"] == var.secret_arns[program] if contains(keys(var.secret_arns), program)])
    error_message = "COUNTERSIGN_SECRET of a program is the secret of another program."
  }
}

run "server_and_sweep_read_no_secret" {
  command = plan

  assert {
    condition = alltrue([for program in ["server", "sweep"] :
      !contains(flatten(output.statements[program][*].actions), "secretsmanager:GetSecretValue")
    ])
    error_message = "The role of the server or the sweep has access to a secret. ECS reads the secret of the server, and the sweep has none."
  }

  assert {
    condition     = alltrue([for program in ["server", "sweep"] : !contains(keys(output.environment[program]), "COUNTERSIGN_SECRET")])
    error_message = "COUNTERSIGN_SECRET is set for the server or the sweep, which do not read it."
  }
}

run "server_receives_and_deletes_no_messages" {
  command = plan

  assert {
    condition = alltrue([for statement in output.statements["server"] :
      alltrue([for arn in statement.resources : endswith(arn, "-dead")])
      if contains(statement.actions, "sqs:ReceiveMessage")
    ])
    error_message = "The server may receive messages from the queues of the workers."
  }

  assert {
    condition     = !contains(flatten(output.statements["server"][*].actions), "sqs:DeleteMessage")
    error_message = "The server may delete messages."
  }
}

run "webhook_function_is_limited_to_its_tenants" {
  command = plan

  variables {
    tenants = ["acme", "globex"]
  }

  assert {
    condition = alltrue([for statement in output.statements["webhook"] :
      tolist(statement.leading_keys) == tolist(["acme#*", "globex#*"])
      if contains(statement.resources, var.table.arn)
    ])
    error_message = "The webhook function has access to items of a tenant that is not in `tenants`."
  }

  assert {
    condition     = anytrue([for statement in output.statements["webhook"] : contains(statement.resources, var.table.arn)])
    error_message = "The webhook function cannot write to the inbox."
  }
}

run "program_queries_only_the_indexes_it_needs" {
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
    error_message = "A program has access to an index that it does not query, or no access to one that it queries."
  }
}

run "accepts_sources_and_systems_of_3000_bytes" {
  command = plan

  variables {
    sources = format("x%02997d", 0)
    systems = format("x%02997d", 0)
  }

  assert {
    condition     = alltrue([for program in ["webhook", "slack"] : length(jsonencode(output.environment[program])) <= 4096])
    error_message = "The environment of a function exceeds the Lambda limit of 4 KB."
  }
}

run "rejects_sources_of_more_than_3000_bytes" {
  command = plan

  variables {
    # As JSON, each newline takes two bytes.
    sources = join("\n", [for _ in range(1000) : "xx"])
  }

  expect_failures = [var.sources]
}

run "rejects_systems_of_more_than_3000_bytes" {
  command = plan

  variables {
    systems = format("x%02998d", 0)
  }

  expect_failures = [var.systems]
}

run "rejects_a_wildcard_tenant" {
  command = plan

  variables {
    tenants = ["*"]
  }

  expect_failures = [var.tenants]
}

run "rejects_a_source_of_an_unlisted_tenant" {
  command = plan

  variables {
    tenants = ["acme"]
    sources = <<-YAML
      - { tenant: acme, source: servicenow, scheme: hmac, secret_env: ACME }
      - { tenant: globex, source: github, scheme: github, secret_env: GLOBEX, previous: { secret_env: OLD, until: 2030-01-01T00:00:00Z } }
    YAML
  }

  expect_failures = [var.sources]
}

run "rejects_a_source_without_a_tenant" {
  command = plan

  variables {
    tenants = ["acme"]
    sources = <<-YAML
      - { source: servicenow, scheme: hmac, secret_env: ACME }
      - { tenant: globex, source: github, scheme: github, secret_env: GLOBEX }
    YAML
  }

  expect_failures = [var.sources]
}

run "accepts_sources_of_listed_tenants" {
  command = plan

  variables {
    tenants = ["acme", "globex"]
    sources = <<-YAML
      - { tenant: acme, source: servicenow, scheme: hmac, secret_env: ACME }
      - { tenant: globex, source: github, scheme: github, secret_env: GLOBEX, previous: { secret_env: OLD, until: 2030-01-01T00:00:00Z } }
    YAML
  }

  assert {
    condition     = length(output.statements["webhook"]) > 0
    error_message = "The webhook function has no IAM statements."
  }
}

run "only_the_worker_writes_evidence" {
  command = plan

  assert {
    condition = [for program, statements in output.statements : program
      if anytrue([for arn in flatten(statements[*].resources) : startswith(arn, var.evidence.arn)])
    ] == ["server", "worker"]
    error_message = "A program other than the server and the worker has access to evidence."
  }

  assert {
    condition = [for program, statements in output.statements : program
      if anytrue([for statement in statements :
        contains(statement.actions, "s3:PutObject") && contains(statement.resources, "${var.evidence.arn}/*")
      ])
    ] == ["worker"]
    error_message = "A program other than the worker may write evidence."
  }
}

run "every_program_may_use_the_customer_managed_key" {
  command = plan

  variables {
    kms_key_arns = ["arn:aws:kms:us-east-1:123456789012:key/1"]
  }

  assert {
    condition     = alltrue([for statements in output.statements : contains(flatten(statements[*].resources), "arn:aws:kms:us-east-1:123456789012:key/1")])
    error_message = "A program has no access to the KMS key."
  }
}

run "worker_gets_its_timers" {
  command = plan

  variables {
    timers = { lease_seconds = 60, renew_seconds = 20 }
  }

  assert {
    condition = [for name in ["LEASE", "RENEW_EVERY", "SWEEP_EVERY", "POLL"] :
      output.environment["worker"]["COUNTERSIGN_${name}"]
    ] == ["60s", "20s", "30s", "5s"]
    error_message = "The worker does not get the timers, or not the defaults of those that are not set."
  }
}

run "rejects_a_renewal_of_more_than_half_the_lease" {
  command = plan

  variables {
    timers = { lease_seconds = 20, renew_seconds = 11 }
  }

  expect_failures = [var.timers]
}

run "only_workers_read_the_secrets_of_connections" {
  command = plan

  variables {
    connection_secrets = {
      secrets_manager = ["arn:aws:secretsmanager:us-east-1:123456789012:secret:countersign/acme/*"]
      parameter_store = ["arn:aws:ssm:us-east-1:123456789012:parameter/countersign/acme/token"]
      kms_keys        = ["arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"]
    }
  }

  assert {
    condition = { for statement in output.statements["worker"] : statement.sid => [statement.actions, statement.resources]
      if length(regexall("Connection", statement.sid)) > 0 } == {
      ReadConnectionSecrets    = [["secretsmanager:GetSecretValue"], var.connection_secrets.secrets_manager]
      ReadConnectionParameters = [["ssm:GetParameter"], var.connection_secrets.parameter_store]
      DecryptConnectionSecrets = [["kms:Decrypt"], var.connection_secrets.kms_keys]
    }
    error_message = "The role of the worker does not have exactly the permissions for the secrets of connections."
  }

  assert {
    condition = alltrue([for program in ["webhook", "slack", "sweep", "server"] :
      length(setintersection(flatten(output.statements[program][*].resources), flatten(values(var.connection_secrets)))) == 0
    ])
    error_message = "A program other than the worker has access to the secrets of connections."
  }
}

run "no_permission_without_connection_secrets" {
  command = plan

  assert {
    condition     = length([for statement in output.statements["worker"] : statement.sid if length(regexall("Connection", statement.sid)) > 0]) == 0
    error_message = "The role of the worker has permissions for secrets of connections that nothing names."
  }
}

run "rejects_all_secrets_of_an_account" {
  command = plan

  variables {
    connection_secrets = { secrets_manager = ["arn:aws:secretsmanager:us-east-1:123456789012:secret:*"] }
  }

  expect_failures = [var.connection_secrets]
}

run "rejects_all_parameters_of_an_account" {
  command = plan

  variables {
    connection_secrets = { parameter_store = ["arn:aws:ssm:us-east-1:123456789012:parameter/*"] }
  }

  expect_failures = [var.connection_secrets]
}

# The tasks of every service are unprivileged and reachable only through rules that a caller adds.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

override_resource {
  target          = aws_cloudwatch_log_group.this
  values          = { arn = "arn:aws:logs:us-east-1:123456789012:log-group:/ecs/example" }
  override_during = plan
}

variables {
  name                       = "example"
  program                    = "worker"
  region                     = "us-east-1"
  image                      = "repository@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  architecture               = "arm64"
  cpu                        = 256
  memory_mb                  = 512
  tasks                      = { min = 2, max = 4 }
  stop_timeout_seconds       = 60
  vpc_id                     = "vpc-1"
  subnet_ids                 = ["subnet-1", "subnet-2"]
  public_ip                  = false
  security_group_description = "Tasks of example: outbound only (443)"
  egress_cidr_blocks         = ["10.0.0.0/8"]
  egress_description         = "HTTPS to AWS"
  environment                = { NAME = "value" }
  statements                 = [{ sid = "Send", actions = ["sqs:SendMessage"], resources = ["arn:aws:sqs:us-east-1:123456789012:steps"] }]
  log_retention_days         = 30
  kms_key_arn                = "arn:aws:kms:us-east-1:123456789012:key/1"
  alarm_topic_arns           = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "task_is_unprivileged_and_read_only" {
  command = plan

  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].readonlyRootFilesystem
    error_message = "The root file system of the container is writable."
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].user == "65532:65532"
    error_message = "The container does not run as the user `nonroot`."
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].linuxParameters.capabilities.drop == ["ALL"]
    error_message = "The container keeps Linux capabilities."
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].stopTimeout == 60
    error_message = "The container has another stop timeout than `stop_timeout_seconds`."
  }
}

run "absent_settings_are_left_out_of_the_container" {
  command = plan

  assert {
    condition     = length(setintersection(keys(jsondecode(aws_ecs_task_definition.this.container_definitions)[0]), ["command", "healthCheck", "portMappings", "secrets"])) == 0
    error_message = "The container definition has a setting that the caller did not set."
  }
}

run "secrets_are_read_by_ecs_and_not_in_the_environment" {
  command = plan

  variables {
    secret_arn   = "arn:aws:secretsmanager:us-east-1:123456789012:secret:example"
    secret_names = ["SESSION_SECRET"]
  }

  assert {
    condition = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].secrets == [
      { name = "SESSION_SECRET", valueFrom = "arn:aws:secretsmanager:us-east-1:123456789012:secret:example:SESSION_SECRET::" }
    ]
    error_message = "ECS does not set the variable from the entry of the secret."
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].environment == [{ name = "NAME", value = "value" }]
    error_message = "The environment of the container is not `environment`."
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.execution.statement : statement.sid] == ["WriteLogs", "ReadSecret", "DecryptSecret"]
    error_message = "ECS cannot read the secret, or has other permissions."
  }
}

run "ecs_has_only_the_permissions_that_it_needs" {
  command = plan

  assert {
    condition     = [for statement in data.aws_iam_policy_document.execution.statement : statement.sid] == ["WriteLogs"]
    error_message = "The execution role has permissions for a secret or a repository that the service does not have."
  }

  assert {
    condition = [for statement in data.aws_iam_policy_document.task.statement : [statement.sid, tolist(statement.actions), tolist(statement.resources)]] == [
      ["Send", tolist(["sqs:SendMessage"]), tolist(["arn:aws:sqs:us-east-1:123456789012:steps"])]
    ]
    error_message = "The permissions of the task role are not `statements`."
  }
}

run "failed_deployment_is_rolled_back" {
  command = plan

  assert {
    condition     = aws_ecs_service.this.deployment_circuit_breaker[0].enable && aws_ecs_service.this.deployment_circuit_breaker[0].rollback
    error_message = "ECS does not roll back a deployment whose tasks do not become healthy."
  }

  assert {
    condition     = aws_ecs_service.this.deployment_minimum_healthy_percent == 100
    error_message = "A deployment stops old tasks before new ones are healthy."
  }
}

run "task_is_not_public" {
  command = plan

  assert {
    condition     = !aws_ecs_service.this.network_configuration[0].assign_public_ip && !aws_ecs_service.this.enable_execute_command
    error_message = "A task has a public address or accepts commands."
  }

  assert {
    condition     = [for rule in aws_vpc_security_group_egress_rule.https : [rule.cidr_ipv4, rule.from_port, rule.to_port]] == [["10.0.0.0/8", 443, 443]]
    error_message = "A task connects to another destination than port 443 of `egress_cidr_blocks`."
  }

  assert {
    condition     = aws_security_group.this.description == var.security_group_description
    error_message = "The security group has another description, so terraform would replace it."
  }
}

run "log_is_encrypted_and_has_a_retention" {
  command = plan

  assert {
    condition     = aws_cloudwatch_log_group.this.retention_in_days == 30 && aws_cloudwatch_log_group.this.kms_key_id == var.kms_key_arn
    error_message = "The log has no retention or is not encrypted with the key."
  }
}

run "missing_tasks_raise_an_alarm" {
  command = plan

  assert {
    condition = toset(flatten([for query in aws_cloudwatch_metric_alarm.missing_tasks.metric_query : [
      for metric in query.metric : "${metric.metric_name} of ${metric.dimensions.ClusterName}/${metric.dimensions.ServiceName}"
    ]])) == toset(["DesiredTaskCount of example/example", "RunningTaskCount of example/example"])
    error_message = "The alarm does not compare the running with the desired tasks of the service."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.missing_tasks.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm notifies no topic."
  }
}

run "rejects_an_image_by_tag" {
  command         = plan
  expect_failures = [var.image]

  variables {
    image = "repository:latest"
  }
}

run "rejects_a_wildcard_action" {
  command         = plan
  expect_failures = [var.statements]

  variables {
    statements = [{ sid = "Any", actions = ["sqs:*"], resources = ["arn:aws:sqs:us-east-1:123456789012:steps"] }]
  }
}

run "rejects_a_wildcard_resource" {
  command         = plan
  expect_failures = [var.statements]

  variables {
    statements = [{ sid = "Any", actions = ["dynamodb:Query"], resources = ["arn:aws:dynamodb:us-east-1:123456789012:table/example/index/*"] }]
  }
}

run "rejects_the_objects_of_every_bucket" {
  command         = plan
  expect_failures = [var.statements]

  variables {
    statements = [{ sid = "Any", actions = ["s3:GetObject"], resources = ["arn:aws:s3:::*/*"] }]
  }
}

run "accepts_the_objects_of_one_bucket" {
  command = plan

  variables {
    statements = [{ sid = "Read", actions = ["s3:GetObject"], resources = ["arn:aws:s3:::example/*"] }]
  }
}

run "rejects_a_secret_name_without_a_secret" {
  command         = plan
  expect_failures = [var.secret_arn]

  variables {
    secret_names = ["SESSION_SECRET"]
  }
}

run "rejects_a_load_balancer_without_a_port" {
  command         = plan
  expect_failures = [var.load_balancer]

  variables {
    load_balancer = { target_group_arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/example/1", grace_seconds = 30 }
  }
}

run "rejects_a_description_that_ec2_rejects" {
  command         = plan
  expect_failures = [var.security_group_description, var.egress_description]

  variables {
    security_group_description = "AWS's endpoints"
    egress_description         = "out — to AWS"
  }
}

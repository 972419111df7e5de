# An ECS service on Fargate in a cluster of its own: task definition, roles, log group, security group, the autoscaling
# target, and an alarm on missing tasks. `worker` and `server` add the scaling policies and what is specific to them.

data "aws_caller_identity" "current" {}

locals {
  # Absent settings are left out of the container definition.
  optional = {
    command      = var.command
    healthCheck  = var.health_check
    portMappings = var.port == null ? null : [{ containerPort = var.port, protocol = "tcp" }]
    # ECS reads these entries of the secret when it starts a task.
    secrets = length(var.secret_names) == 0 ? null : [
      for name in var.secret_names : { name = name, valueFrom = "${var.secret_arn}:${name}::" }
    ]
  }

  container = merge({ for key, value in local.optional : key => value if value != null }, {
    name                   = var.program
    image                  = var.image
    essential              = true
    readonlyRootFilesystem = true
    # The user `nonroot` of the images, by id.
    user        = "65532:65532"
    stopTimeout = var.stop_timeout_seconds

    linuxParameters = {
      capabilities       = { drop = ["ALL"] }
      initProcessEnabled = false
    }

    environment = [for name, value in var.environment : { name = name, value = value }]

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.this.name
        awslogs-region        = var.region
        awslogs-stream-prefix = var.program
      }
    }
  })
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = var.tags

  # Autoscaling of the worker and the alarm on missing tasks use Container Insights metrics.
  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = var.capacity_providers
}

resource "aws_ecs_task_definition" "this" {
  family                   = var.name
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mb
  task_role_arn            = aws_iam_role.task.arn
  execution_role_arn       = aws_iam_role.execution.arn
  container_definitions    = jsonencode([local.container])
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture == "arm64" ? "ARM64" : "X86_64"
  }
}

resource "aws_ecs_service" "this" {
  #checkov:skip=CKV_AWS_333:A task has a public address only if `public_ip` is set, for a VPC without NAT. The security group admits no inbound connections; `server` adds a rule for its load balancer.
  name                               = var.name
  cluster                            = aws_ecs_cluster.this.arn
  task_definition                    = aws_ecs_task_definition.this.arn
  desired_count                      = var.tasks.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = var.load_balancer == null ? null : var.load_balancer.grace_seconds
  enable_execute_command             = false
  propagate_tags                     = "SERVICE"
  tags                               = var.tags

  capacity_provider_strategy {
    capacity_provider = var.capacity_provider
    weight            = 1
  }

  # ECS rolls back a deployment whose tasks do not become healthy.
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  dynamic "load_balancer" {
    for_each = var.load_balancer == null ? [] : [var.load_balancer.target_group_arn]

    content {
      target_group_arn = load_balancer.value
      container_name   = var.program
      container_port   = var.port
    }
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.this.id]
    assign_public_ip = var.public_ip
  }

  lifecycle {
    # Autoscaling manages the desired count.
    ignore_changes = [desired_count]
  }

  depends_on = [aws_ecs_cluster_capacity_providers.this, aws_iam_role_policy.task, aws_iam_role_policy.execution]
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/ecs/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# ---- network

resource "aws_security_group" "this" {
  name        = var.name
  description = var.security_group_description
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "https" {
  for_each = toset(var.egress_cidr_blocks)

  security_group_id = aws_security_group.this.id
  description       = var.egress_description
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = var.tags
}

# ---- roles

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

# The task role: permissions of the program.
resource "aws_iam_role" "task" {
  name               = "${var.name}-task"
  description        = "Task role of the ${var.program} ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.assume.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "task" {
  name   = "listed"
  role   = aws_iam_role.task.id
  policy = data.aws_iam_policy_document.task.json
}

data "aws_iam_policy_document" "task" {
  dynamic "statement" {
    for_each = var.statements

    content {
      sid       = statement.value.sid
      actions   = statement.value.actions
      resources = statement.value.resources
    }
  }
}

# The execution role: permissions of ECS to start the task.
resource "aws_iam_role" "execution" {
  name               = "${var.name}-execution"
  description        = "Execution role of the ${var.program} ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.assume.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "execution" {
  name   = "listed"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

data "aws_iam_policy_document" "execution" {
  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this.arn}:log-stream:*"]
  }

  dynamic "statement" {
    for_each = length(var.secret_names) == 0 ? [] : [var.secret_arn]

    content {
      sid       = "ReadSecret"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = [statement.value]
    }
  }

  dynamic "statement" {
    for_each = length(var.secret_names) == 0 ? [] : compact([var.kms_key_arn])

    content {
      sid       = "DecryptSecret"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }

  dynamic "statement" {
    for_each = var.repository_arn == null ? [] : [var.repository_arn]

    content {
      sid       = "PullImage"
      actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      resources = [statement.value]
    }
  }

  dynamic "statement" {
    for_each = var.repository_arn == null ? [] : ["login"]

    content {
      sid     = "GetEcrToken"
      actions = ["ecr:GetAuthorizationToken"]
      # This action supports no resource. The token gives access only to the repository of the statement above.
      resources = ["*"]
    }
  }
}

# ---- autoscaling and alarm

resource "aws_appautoscaling_target" "this" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.this.name}"
  min_capacity       = var.tasks.min
  max_capacity       = var.tasks.max
}

resource "aws_cloudwatch_metric_alarm" "missing_tasks" {
  alarm_name          = "${var.name}-missing-tasks"
  alarm_description   = "Service ${var.name} runs fewer tasks than desired: tasks do not start or do not stay healthy. Check the service events and the log."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 10
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  metric_query {
    id          = "missing"
    expression  = "desired - running"
    label       = "tasks that are missing"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { desired = "DesiredTaskCount", running = "RunningTaskCount" }

    content {
      id = metric_query.key

      metric {
        namespace   = "ECS/ContainerInsights"
        metric_name = metric_query.value
        period      = 60
        stat        = "Average"
        dimensions = {
          ClusterName = aws_ecs_cluster.this.name
          ServiceName = aws_ecs_service.this.name
        }
      }
    }
  }
}

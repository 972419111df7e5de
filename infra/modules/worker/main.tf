# The worker: an ECS service on Fargate that receives messages from the queues. It accepts no inbound connections.

data "aws_caller_identity" "current" {}

locals {
  port = 8080

  container = {
    name                   = "worker"
    image                  = var.image
    essential              = true
    readonlyRootFilesystem = true
    # The user `nonroot` of the image (worker/Dockerfile), by id.
    user = "65532:65532"
    # On SIGTERM, the worker drains. It renews the leases of its running steps until this timeout.
    stopTimeout = 60

    linuxParameters = {
      capabilities       = { drop = ["ALL"] }
      initProcessEnabled = false
    }

    environment = [for name, value in var.environment : { name = name, value = value }]

    # The image has no shell and no curl, so the program requests its own /health.
    healthCheck = {
      command     = ["CMD", "/countersign-worker", "health", "http://127.0.0.1:${local.port}/health"]
      interval    = 15
      timeout     = 5
      retries     = 4
      startPeriod = 30
    }

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.this.name
        awslogs-region        = var.region
        awslogs-stream-prefix = "worker"
      }
    }
  }
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = var.tags

  # Autoscaling and the alarm on missing tasks use Container Insights metrics.
  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = ["FARGATE", "FARGATE_SPOT"]
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
  #checkov:skip=CKV_AWS_333:A task has a public address only if `public_ip` is set, for a VPC without NAT. Inbound connections are denied in both cases.
  name                               = var.name
  cluster                            = aws_ecs_cluster.this.arn
  task_definition                    = aws_ecs_task_definition.this.arn
  desired_count                      = var.tasks.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  enable_execute_command             = false
  propagate_tags                     = "SERVICE"
  tags                               = var.tags

  capacity_provider_strategy {
    capacity_provider = var.spot ? "FARGATE_SPOT" : "FARGATE"
    weight            = 1
  }

  # ECS rolls back a deployment whose tasks do not become healthy.
  deployment_circuit_breaker {
    enable   = true
    rollback = true
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
  description = "Workers of ${var.name}: outbound only"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "https" {
  for_each = toset(var.egress_cidr_blocks)

  security_group_id = aws_security_group.this.id
  description       = "HTTPS to AWS and to external systems"
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
  description        = "Task role of the worker ${var.name}"
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
  description        = "Execution role of the worker ${var.name}"
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

# ---- autoscaling by visible messages for each task, and by the age of the oldest message

resource "aws_appautoscaling_target" "this" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.this.name}"
  min_capacity       = var.tasks.min
  max_capacity       = var.tasks.max
}

resource "aws_appautoscaling_policy" "depth" {
  name               = "${var.name}-depth"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension
  resource_id        = aws_appautoscaling_target.this.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = var.backlog_per_task
    scale_out_cooldown = 60
    # Scales in slowly, because a draining worker may still run a step.
    scale_in_cooldown = 300

    customized_metric_specification {
      dynamic "metrics" {
        for_each = var.queue_names

        content {
          id          = "waiting_${metrics.key}"
          return_data = false

          metric_stat {
            stat = "Average"

            metric {
              namespace   = "AWS/SQS"
              metric_name = "ApproximateNumberOfMessagesVisible"

              dimensions {
                name  = "QueueName"
                value = metrics.value
              }
            }
          }
        }
      }

      metrics {
        id          = "tasks"
        return_data = false

        metric_stat {
          stat = "Average"

          metric {
            namespace   = "ECS/ContainerInsights"
            metric_name = "RunningTaskCount"

            dimensions {
              name  = "ClusterName"
              value = aws_ecs_cluster.this.name
            }

            dimensions {
              name  = "ServiceName"
              value = aws_ecs_service.this.name
            }
          }
        }
      }

      metrics {
        id          = "backlog"
        label       = "messages waiting for each task"
        expression  = "(${join(" + ", [for key in keys(var.queue_names) : "waiting_${key}"])}) / IF(tasks > 0, tasks, 1)"
        return_data = true
      }
    }
  }
}

resource "aws_appautoscaling_policy" "age" {
  name               = "${var.name}-age"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension
  resource_id        = aws_appautoscaling_target.this.resource_id

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    metric_aggregation_type = "Maximum"
    cooldown                = 60

    step_adjustment {
      metric_interval_lower_bound = 0
      metric_interval_upper_bound = var.age_seconds
      scaling_adjustment          = 1
    }

    step_adjustment {
      metric_interval_lower_bound = var.age_seconds
      scaling_adjustment          = 3
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "age" {
  alarm_name          = "${var.name}-scale-out"
  alarm_description   = "The oldest message is older than ${var.age_seconds} s. Autoscaling adds tasks to ${var.name}."
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.age_seconds
  evaluation_periods  = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_appautoscaling_policy.age.arn]
  tags                = var.tags

  metric_query {
    id          = "oldest"
    expression  = "MAX([${join(", ", [for key in keys(var.queue_names) : "late_${key}"])}])"
    label       = "age of the oldest message"
    return_data = true
  }

  # Messages that are in flight or delayed also have an age. If no message is visible, more tasks would not help.
  dynamic "metric_query" {
    for_each = var.queue_names

    content {
      id         = "late_${metric_query.key}"
      expression = "IF(waiting_${metric_query.key} > 0, age_${metric_query.key}, 0)"
    }
  }

  dynamic "metric_query" {
    for_each = var.queue_names

    content {
      id = "waiting_${metric_query.key}"

      metric {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesVisible"
        period      = 60
        stat        = "Maximum"
        dimensions  = { QueueName = metric_query.value }
      }
    }
  }

  dynamic "metric_query" {
    for_each = var.queue_names

    content {
      id = "age_${metric_query.key}"

      metric {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateAgeOfOldestMessage"
        period      = 60
        stat        = "Maximum"
        dimensions  = { QueueName = metric_query.value }
      }
    }
  }
}

# ---- alarms

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

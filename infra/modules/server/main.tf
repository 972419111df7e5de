# `countersign serve`: the API, the live stream and the console as an ECS service on Fargate behind a load balancer
# that terminates TLS. Only the load balancer can connect to a task. Nothing listens on port 80, so that no client
# sends an API key without encryption.

data "aws_caller_identity" "current" {}

locals {
  port = 7420

  # The name of a load balancer has at most 32 characters.
  short_name = trimsuffix(substr(var.name, 0, 32), "-")

  container = {
    name                   = "server"
    image                  = var.image
    essential              = true
    readonlyRootFilesystem = true
    # The user `nonroot` of the image (crates/cli/Dockerfile), by id.
    user = "65532:65532"
    # Longer than `--drain`, after which the program closes open connections and logs that.
    stopTimeout = 30

    command = [
      "serve",
      "--aws",
      # Both files are in the image.
      "--config", "/etc/countersign/countersign.yaml",
      "--key", "/etc/countersign/evidence.pub",
      "--listen", "0.0.0.0:${local.port}",
      "--behind-tls",
      "--drain", "20s",
      # Loopback only, for a collector in the same task: the metrics contain tenant names and need no authentication.
      "--metrics", "127.0.0.1:9464",
      "--json",
      "--log-json",
    ]

    portMappings = [{ containerPort = local.port, protocol = "tcp" }]

    linuxParameters = {
      capabilities       = { drop = ["ALL"] }
      initProcessEnabled = false
    }

    environment = [for name, value in var.environment : { name = name, value = value }]

    # ECS reads these entries of the secret when it starts a task.
    secrets = [for name in var.secret_names : { name = name, valueFrom = "${var.secret_arn}:${name}::" }]

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.this.name
        awslogs-region        = var.region
        awslogs-stream-prefix = "server"
      }
    }
  }
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = var.tags

  # The alarm on missing tasks uses Container Insights metrics.
  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = ["FARGATE"]
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
  #checkov:skip=CKV_AWS_333:A task has a public address only if `public_ip` is set, for a VPC without NAT. Only the load balancer can connect to it in both cases.
  name                               = var.name
  cluster                            = aws_ecs_cluster.this.arn
  task_definition                    = aws_ecs_task_definition.this.arn
  desired_count                      = var.tasks.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  # The image has no shell and no curl, so ECS uses the health check of the load balancer.
  health_check_grace_period_seconds = 30
  enable_execute_command            = false
  propagate_tags                    = "SERVICE"
  tags                              = var.tags

  capacity_provider_strategy {
    capacity_provider = "FARGATE"
    weight            = 1
  }

  # ECS rolls back a deployment whose tasks do not become healthy.
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.this.arn
    container_name   = local.container.name
    container_port   = local.port
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.tasks.id]
    assign_public_ip = var.public_ip
  }

  lifecycle {
    # Autoscaling manages the desired count.
    ignore_changes = [desired_count]
  }

  # ECS rejects a target group without a listener.
  depends_on = [
    aws_ecs_cluster_capacity_providers.this,
    aws_iam_role_policy.task,
    aws_iam_role_policy.execution,
    aws_lb_listener.https,
  ]
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/ecs/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# ---- load balancer

resource "aws_lb" "this" {
  #checkov:skip=CKV2_AWS_76:The program does not use Java, so Log4j rules do not apply. Set `web_acl_arn` to attach a web ACL.
  name                       = local.short_name
  load_balancer_type         = "application"
  internal                   = var.internal
  subnets                    = var.balancer_subnet_ids
  security_groups            = [aws_security_group.balancer.id]
  enable_deletion_protection = var.deletion_protection
  drop_invalid_header_fields = true
  # `strictest` also rejects harmless requests, such as a GET with `Content-Length: 0`.
  desync_mitigation_mode = "defensive"
  # The server compares the host with the origin of forms and WebSockets.
  preserve_host_header = true
  # The server sends heartbeats on streams, so this timeout closes only dead connections.
  idle_timeout = var.idle_timeout_seconds
  tags         = var.tags

  access_logs {
    enabled = true
    bucket  = module.access_log.name
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.this.arn
  port              = 443
  protocol          = "HTTPS"
  # TLS 1.3, and TLS 1.2 with forward secrecy and AEAD ciphers.
  ssl_policy      = "ELBSecurityPolicy-TLS13-1-2-Res-2021-06"
  certificate_arn = var.certificate_arn
  # HSTS: browsers use only HTTPS for one year.
  routing_http_response_strict_transport_security_header_value = "max-age=31536000"
  tags                                                         = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this.arn
  }
}

resource "aws_lb_target_group" "this" {
  name        = local.short_name
  vpc_id      = var.vpc_id
  target_type = "ip"
  protocol    = "HTTP"
  port        = local.port
  # Requests finish within this time. Streams stay open until the program shuts down; their clients then reconnect.
  deregistration_delay = 15
  tags                 = var.tags

  health_check {
    path    = "/healthz"
    matcher = "200"
    # Longer than the store timeout of the health endpoint.
    timeout             = 5
    interval            = 15
    healthy_threshold   = 2
    unhealthy_threshold = 4
  }
}

resource "aws_wafv2_web_acl_association" "this" {
  count = var.web_acl_arn == null ? 0 : 1

  resource_arn = aws_lb.this.arn
  web_acl_arn  = var.web_acl_arn
}

# The access log of the load balancer. It contains client addresses, but no bodies and no headers.
module "access_log" {
  source = "../bucket"

  name                = "${var.name}-access-${data.aws_caller_identity.current.account_id}"
  takes_balancer_logs = true
  access_log_bucket   = var.access_log_bucket
  tags                = var.tags
}

resource "aws_s3_bucket_lifecycle_configuration" "access_log" {
  bucket = module.access_log.name

  rule {
    id     = "expire"
    status = "Enabled"
    filter {}

    expiration {
      days = var.log_retention_days
    }

    noncurrent_version_expiration {
      noncurrent_days = 7
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

# ---- network

resource "aws_security_group" "balancer" {
  name        = "${var.name}-balancer"
  description = "Load balancer of ${var.name}: HTTPS from clients, HTTP to the tasks"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "balancer" {
  for_each = toset(var.ingress_cidr_blocks)

  security_group_id = aws_security_group.balancer.id
  description       = "HTTPS from clients"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "balancer" {
  security_group_id            = aws_security_group.balancer.id
  description                  = "HTTP to the tasks"
  referenced_security_group_id = aws_security_group.tasks.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  tags                         = var.tags
}

resource "aws_security_group" "tasks" {
  name        = var.name
  description = "Tasks of ${var.name}: HTTP from the load balancer, HTTPS to AWS"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "tasks" {
  security_group_id            = aws_security_group.tasks.id
  description                  = "HTTP from the load balancer"
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  tags                         = var.tags
}

resource "aws_vpc_security_group_egress_rule" "tasks" {
  for_each = toset(var.egress_cidr_blocks)

  security_group_id = aws_security_group.tasks.id
  description       = "HTTPS to AWS and to the identity provider"
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
  description        = "Task role of the server ${var.name}"
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
  description        = "Execution role of the server ${var.name}"
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

  statement {
    sid       = "ReadSecret"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [var.secret_arn]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

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

# ---- autoscaling by CPU utilization

resource "aws_appautoscaling_target" "this" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.this.name}"
  min_capacity       = var.tasks.min
  max_capacity       = var.tasks.max
}

resource "aws_appautoscaling_policy" "cpu" {
  name               = "${var.name}-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension
  resource_id        = aws_appautoscaling_target.this.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = var.cpu_percent
    scale_out_cooldown = 60
    # Scales in slowly, because clients of streams must reconnect.
    scale_in_cooldown = 300

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

# ---- alarms

resource "aws_cloudwatch_metric_alarm" "unhealthy" {
  alarm_name        = "${var.name}-unhealthy"
  alarm_description = "A task of ${var.name} fails its health check: the task or its store does not respond. Check the log of the task."
  namespace         = "AWS/ApplicationELB"
  metric_name       = "UnHealthyHostCount"
  dimensions = {
    LoadBalancer = aws_lb.this.arn_suffix
    TargetGroup  = aws_lb_target_group.this.arn_suffix
  }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
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

resource "aws_cloudwatch_metric_alarm" "server_errors" {
  alarm_name        = "${var.name}-errors"
  alarm_description = "The server ${var.name} returns 5xx responses. Check its log."
  namespace         = "AWS/ApplicationELB"
  metric_name       = "HTTPCode_Target_5XX_Count"
  dimensions = {
    LoadBalancer = aws_lb.this.arn_suffix
    TargetGroup  = aws_lb_target_group.this.arn_suffix
  }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "balancer_errors" {
  alarm_name          = "${var.name}-balancer-errors"
  alarm_description   = "The load balancer of ${var.name} returns 5xx responses: no healthy task is available, or a task closed the connection."
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HTTPCode_ELB_5XX_Count"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

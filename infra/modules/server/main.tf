# `countersign serve`: the API, the live stream and the console, as tasks on Fargate behind a load balancer that ends
# TLS. Only the balancer reaches a task, and there is no way in without TLS: nothing listens on port 80, so that a
# key which is sent in the clear goes nowhere.

data "aws_caller_identity" "current" {}

locals {
  port = 7420

  # A balancer's name is shorter than ours may be.
  short_name = trimsuffix(substr(var.name, 0, 32), "-")

  container = {
    name                   = "server"
    image                  = var.image
    essential              = true
    readonlyRootFilesystem = true
    # `nonroot` of the image (crates/cli/Dockerfile), by number: an image without a shell may have no names.
    user = "65532:65532"
    # Longer than `--drain`: whoever has not finished by then is cut off by the program, which says so.
    stopTimeout = 30

    command = [
      "serve",
      "--aws",
      # Both are in the image, beside the program.
      "--config", "/etc/countersign/countersign.yaml",
      "--key", "/etc/countersign/evidence.pub",
      "--listen", "0.0.0.0:${local.port}",
      "--behind-tls",
      "--drain", "20s",
      # For a collector in the same task: it names tenants, and asks for no key.
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

    # ECS reads them when a task starts: one entry of the secret for each variable.
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

  # The alarm on missing tasks is computed from what it counts.
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
  #checkov:skip=CKV_AWS_333:No public address unless `public_ip` is set, for a network without NAT; only the balancer may come in either way.
  name                               = var.name
  cluster                            = aws_ecs_cluster.this.arn
  task_definition                    = aws_ecs_task_definition.this.arn
  desired_count                      = var.tasks.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  # There is no shell and no curl in the image; what the balancer finds out is what ECS goes by.
  health_check_grace_period_seconds = 30
  enable_execute_command            = false
  propagate_tags                    = "SERVICE"
  tags                              = var.tags

  capacity_provider_strategy {
    capacity_provider = "FARGATE"
    weight            = 1
  }

  # A version that does not become healthy is taken back.
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
    # Autoscaling's, from the first minute on.
    ignore_changes = [desired_count]
  }

  # A group of targets without a listener takes no service.
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

# ---- the balancer

resource "aws_lb" "this" {
  #checkov:skip=CKV2_AWS_76:There is no Java behind it. Which rules a firewall has is the account's choice, and its bill: `web_acl_arn` puts one before it.
  name                       = local.short_name
  load_balancer_type         = "application"
  internal                   = var.internal
  subnets                    = var.balancer_subnet_ids
  security_groups            = [aws_security_group.balancer.id]
  enable_deletion_protection = var.deletion_protection
  drop_invalid_header_fields = true
  # `strictest` would refuse what is odd and harmless too, such as a GET that says its body is empty.
  desync_mitigation_mode = "defensive"
  # The server compares it with the page that a form or a socket comes from.
  preserve_host_header = true
  # A stream is never silent for longer than a heartbeat of the server, so this cuts off only what is dead.
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
  # TLS 1.3, and 1.2 with forward secrecy and authenticated ciphers alone.
  ssl_policy      = "ELBSecurityPolicy-TLS13-1-2-Res-2021-06"
  certificate_arn = var.certificate_arn
  # Browsers that were here once do not try without TLS for a year.
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
  # Requests finish within it; streams go on until the program is asked to leave and sends their listeners elsewhere.
  deregistration_delay = 15
  tags                 = var.tags

  health_check {
    path    = "/healthz"
    matcher = "200"
    # Longer than the program waits for its store.
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

# Who asked for what, and what became of it. Addresses stand in it, neither bodies nor headers.
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
  description = "The balancer of ${var.name}: HTTPS in, the server out"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "balancer" {
  for_each = toset(var.ingress_cidr_blocks)

  security_group_id = aws_security_group.balancer.id
  description       = "HTTPS from whoever may reach the server"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "balancer" {
  security_group_id            = aws_security_group.balancer.id
  description                  = "The server"
  referenced_security_group_id = aws_security_group.tasks.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  tags                         = var.tags
}

resource "aws_security_group" "tasks" {
  name        = var.name
  description = "Tasks of ${var.name}: the balancer in, HTTPS out"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "tasks" {
  security_group_id            = aws_security_group.tasks.id
  description                  = "The balancer, and nobody else"
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

# What the program may do.
resource "aws_iam_role" "task" {
  name               = "${var.name}-task"
  description        = "What the server ${var.name} may do"
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

# What ECS may do to start it.
resource "aws_iam_role" "execution" {
  name               = "${var.name}-execution"
  description        = "What ECS may do to start the server ${var.name}"
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
    sid       = "WriteItsLog"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this.arn}:log-stream:*"]
  }

  statement {
    sid       = "HandItItsSecret"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [var.secret_arn]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      sid       = "ReadWhatIsEncrypted"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }

  dynamic "statement" {
    for_each = var.repository_arn == null ? [] : [var.repository_arn]

    content {
      sid       = "FetchItsImage"
      actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      resources = [statement.value]
    }
  }

  dynamic "statement" {
    for_each = var.repository_arn == null ? [] : ["login"]

    content {
      sid     = "LogInToTheRegistry"
      actions = ["ecr:GetAuthorizationToken"]
      # ECR knows no resource for this; the token opens only what the statement above names.
      resources = ["*"]
    }
  }
}

# ---- autoscaling: by how busy the tasks are

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
    # Slow to leave: whoever listens on a stream has to connect anew.
    scale_in_cooldown = 300

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

# ---- somebody is told

resource "aws_cloudwatch_metric_alarm" "unhealthy" {
  alarm_name        = "${var.name}-unhealthy"
  alarm_description = "A task of ${var.name} does not answer, or its store does not answer it; its log says why."
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
  alarm_description   = "Fewer tasks of ${var.name} run than should: they do not start, or do not stay healthy."
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
  alarm_description = "The server ${var.name} answers with 5xx; its log says why."
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
  alarm_description   = "The balancer of ${var.name} answers with 5xx itself: no task takes the request, or one broke off."
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

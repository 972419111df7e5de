# `countersign serve`: the API, the live stream and the console as an ECS service on Fargate behind a load balancer
# that terminates TLS. Only the load balancer can connect to a task. Nothing listens on port 80, so that no client
# sends an API key without encryption.

data "aws_caller_identity" "current" {}

locals {
  port = 7420

  # The name of a load balancer has at most 32 characters.
  short_name = trimsuffix(substr(var.name, 0, 32), "-")
}

module "service" {
  source = "../ecs-service"

  name                       = var.name
  program                    = "server"
  region                     = var.region
  image                      = var.image
  repository_arn             = var.repository_arn
  architecture               = var.architecture
  cpu                        = var.cpu
  memory_mb                  = var.memory_mb
  tasks                      = var.tasks
  port                       = local.port
  vpc_id                     = var.vpc_id
  subnet_ids                 = var.subnet_ids
  public_ip                  = var.public_ip
  security_group_description = "Tasks of ${var.name}: HTTP from the load balancer, HTTPS to AWS"
  egress_cidr_blocks         = var.egress_cidr_blocks
  egress_description         = "HTTPS to AWS and to the identity provider"
  environment                = var.environment
  secret_arn                 = var.secret_arn
  secret_names               = var.secret_names
  statements                 = var.statements
  log_retention_days         = var.log_retention_days
  kms_key_arn                = var.kms_key_arn
  alarm_topic_arns           = var.alarm_topic_arns
  tags                       = var.tags

  # Longer than `--drain`, after which the program closes open connections and logs that.
  stop_timeout_seconds = 30

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

  # The image has no shell and no curl, so ECS uses the health check of the load balancer.
  load_balancer = {
    # ECS rejects a target group without a listener, so the ARN comes from the listener.
    target_group_arn = aws_lb_listener.https.default_action[0].target_group_arn
    grace_seconds    = 30
  }
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
  referenced_security_group_id = module.service.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  tags                         = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "tasks" {
  security_group_id            = module.service.security_group_id
  description                  = "HTTP from the load balancer"
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  tags                         = var.tags
}

# ---- autoscaling by CPU utilization

resource "aws_appautoscaling_policy" "cpu" {
  name               = "${var.name}-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = module.service.scaling_target.service_namespace
  scalable_dimension = module.service.scaling_target.scalable_dimension
  resource_id        = module.service.scaling_target.resource_id

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

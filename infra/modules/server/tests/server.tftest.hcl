# Only the load balancer reaches a task. The load balancer uses TLS, logs access and has its alarms.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

override_resource {
  target          = module.service.aws_security_group.this
  values          = { id = "sg-tasks" }
  override_during = plan
}

override_resource {
  target          = aws_security_group.balancer
  values          = { id = "sg-balancer" }
  override_during = plan
}

override_resource {
  target          = aws_lb.this
  values          = { arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/app/example/1", arn_suffix = "app/example/1" }
  override_during = plan
}

override_resource {
  target          = aws_lb_target_group.this
  values          = { arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/example/1", arn_suffix = "targetgroup/example/1" }
  override_during = plan
}

variables {
  name                = "example"
  region              = "us-east-1"
  image               = "repository@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  certificate_arn     = "arn:aws:acm:us-east-1:123456789012:certificate/1"
  ingress_cidr_blocks = ["203.0.113.0/24"]
  vpc_id              = "vpc-1"
  balancer_subnet_ids = ["subnet-1", "subnet-2"]
  subnet_ids          = ["subnet-3"]
  environment         = {}
  secret_arn          = "arn:aws:secretsmanager:us-east-1:123456789012:secret:example"
  secret_names        = ["SESSION_SECRET"]
  statements          = [{ sid = "Send", actions = ["sqs:SendMessage"], resources = ["arn:aws:sqs:us-east-1:123456789012:steps"] }]
  alarm_topic_arns    = ["arn:aws:sns:us-east-1:123456789012:alarms"]
}

run "only_the_balancer_reaches_a_task" {
  command = plan

  assert {
    condition     = aws_vpc_security_group_ingress_rule.tasks.security_group_id == "sg-tasks" && aws_vpc_security_group_ingress_rule.tasks.referenced_security_group_id == "sg-balancer"
    error_message = "A task accepts connections that do not come from the load balancer."
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.tasks.from_port == aws_lb_target_group.this.port && aws_vpc_security_group_ingress_rule.tasks.to_port == aws_lb_target_group.this.port
    error_message = "A task accepts connections to another port."
  }

  assert {
    condition     = [for rule in aws_vpc_security_group_ingress_rule.balancer : [rule.security_group_id, rule.cidr_ipv4, rule.from_port, rule.to_port]] == [["sg-balancer", "203.0.113.0/24", 443, 443]]
    error_message = "The load balancer accepts other connections than HTTPS from `ingress_cidr_blocks`."
  }
}

run "load_balancer_is_protected_and_logs_access" {
  command = plan

  assert {
    condition     = aws_lb.this.drop_invalid_header_fields && aws_lb.this.desync_mitigation_mode == "defensive"
    error_message = "The load balancer forwards invalid or ambiguous requests."
  }

  assert {
    condition     = aws_lb.this.enable_deletion_protection
    error_message = "The load balancer is not protected from deletion by default."
  }

  assert {
    condition     = aws_lb.this.access_logs[0].enabled
    error_message = "The load balancer has no access log."
  }
}

run "listener_uses_tls" {
  command = plan

  assert {
    condition     = aws_lb_listener.https.protocol == "HTTPS" && aws_lb_listener.https.certificate_arn == var.certificate_arn
    error_message = "The listener does not use TLS with the certificate."
  }

  assert {
    condition     = startswith(aws_lb_listener.https.ssl_policy, "ELBSecurityPolicy-TLS13-1-2-")
    error_message = "The listener accepts versions before TLS 1.2."
  }
}

run "load_balancer_has_its_alarms" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.unhealthy.metric_name == "UnHealthyHostCount" && aws_cloudwatch_metric_alarm.unhealthy.dimensions.TargetGroup == aws_lb_target_group.this.arn_suffix
    error_message = "There is no alarm on UnHealthyHostCount."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.unhealthy.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on UnHealthyHostCount notifies no topic."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.server_errors.metric_name == "HTTPCode_Target_5XX_Count" && aws_cloudwatch_metric_alarm.server_errors.dimensions.TargetGroup == aws_lb_target_group.this.arn_suffix
    error_message = "There is no alarm on HTTPCode_Target_5XX_Count."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.server_errors.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on HTTPCode_Target_5XX_Count notifies no topic."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.balancer_errors.metric_name == "HTTPCode_ELB_5XX_Count" && aws_cloudwatch_metric_alarm.balancer_errors.dimensions.LoadBalancer == aws_lb.this.arn_suffix
    error_message = "There is no alarm on HTTPCode_ELB_5XX_Count."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.balancer_errors.alarm_actions == toset(var.alarm_topic_arns)
    error_message = "The alarm on HTTPCode_ELB_5XX_Count notifies no topic."
  }
}

run "access_log_expires" {
  command = plan

  assert {
    condition     = one(aws_s3_bucket_lifecycle_configuration.access_log.rule).expiration[0].days == var.log_retention_days
    error_message = "The access log is retained longer than the log."
  }
}

run "descriptions_are_valid_for_ec2" {
  command = plan

  assert {
    condition     = alltrue([for described in concat([aws_security_group.balancer, aws_vpc_security_group_ingress_rule.tasks, aws_vpc_security_group_egress_rule.balancer], values(aws_vpc_security_group_ingress_rule.balancer)) : can(regex("^[a-zA-Z0-9 ._:/()#,@\\[\\]+=&;{}!$*-]{1,255}$", described.description))])
    error_message = "EC2 rejects the description when the rule is created."
  }
}

# The worker: an ECS service on Fargate that receives messages from the queues. It accepts no inbound connections.

locals {
  port = 8080
}

module "service" {
  source = "../ecs-service"

  name                       = var.name
  program                    = "worker"
  region                     = var.region
  image                      = var.image
  repository_arn             = var.repository_arn
  architecture               = var.architecture
  cpu                        = var.cpu
  memory_mb                  = var.memory_mb
  capacity_providers         = ["FARGATE", "FARGATE_SPOT"]
  capacity_provider          = var.spot ? "FARGATE_SPOT" : "FARGATE"
  tasks                      = var.tasks
  vpc_id                     = var.vpc_id
  subnet_ids                 = var.subnet_ids
  public_ip                  = var.public_ip
  security_group_description = "Workers of ${var.name}: outbound only"
  egress_cidr_blocks         = var.egress_cidr_blocks
  egress_description         = "HTTPS to AWS and to external systems"
  environment                = var.environment
  statements                 = var.statements
  log_retention_days         = var.log_retention_days
  kms_key_arn                = var.kms_key_arn
  alarm_topic_arns           = var.alarm_topic_arns
  tags                       = var.tags

  # On SIGTERM, the worker drains. It renews the leases of its running steps until this timeout.
  stop_timeout_seconds = 60

  # The image has no shell and no curl, so the program requests its own /health.
  health_check = {
    command     = ["CMD", "/countersign-worker", "health", "http://127.0.0.1:${local.port}/health"]
    interval    = 15
    timeout     = 5
    retries     = 4
    startPeriod = 30
  }
}

# ---- autoscaling by visible messages for each task, and by the age of the oldest message

resource "aws_appautoscaling_policy" "depth" {
  name               = "${var.name}-depth"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = module.service.scaling_target.service_namespace
  scalable_dimension = module.service.scaling_target.scalable_dimension
  resource_id        = module.service.scaling_target.resource_id

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
              value = module.service.cluster_name
            }

            dimensions {
              name  = "ServiceName"
              value = module.service.service_name
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
  service_namespace  = module.service.scaling_target.service_namespace
  scalable_dimension = module.service.scaling_target.scalable_dimension
  resource_id        = module.service.scaling_target.resource_id

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

output "cluster_name" {
  description = "Name of the ECS cluster."
  value       = aws_ecs_cluster.this.name
}

output "service_name" {
  description = "Name of the ECS service."
  value       = aws_ecs_service.this.name
}

output "security_group_id" {
  description = "Security group of the tasks, for ingress rules."
  value       = aws_security_group.this.id
}

output "task_role_name" {
  description = "Name of the task role."
  value       = aws_iam_role.task.name
}

output "scaling_target" {
  description = "Autoscaling target of the service, for scaling policies."
  value = {
    service_namespace  = aws_appautoscaling_target.this.service_namespace
    scalable_dimension = aws_appautoscaling_target.this.scalable_dimension
    resource_id        = aws_appautoscaling_target.this.resource_id
  }
}

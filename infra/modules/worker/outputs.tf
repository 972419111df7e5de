output "cluster_name" {
  description = "The cluster's name."
  value       = aws_ecs_cluster.this.name
}

output "service_name" {
  description = "The service's name."
  value       = aws_ecs_service.this.name
}

output "security_group_id" {
  description = "The tasks' security group, for whoever has to let them in."
  value       = aws_security_group.this.id
}

output "task_role_name" {
  description = "The program's role."
  value       = aws_iam_role.task.name
}

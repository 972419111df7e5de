output "cluster_name" {
  description = "Name of the ECS cluster."
  value       = module.service.cluster_name
}

output "service_name" {
  description = "Name of the ECS service."
  value       = module.service.service_name
}

output "security_group_id" {
  description = "Security group of the tasks, for ingress rules of other resources."
  value       = module.service.security_group_id
}

output "task_role_name" {
  description = "Name of the task role."
  value       = module.service.task_role_name
}

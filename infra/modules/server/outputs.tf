output "dns_name" {
  description = "The balancer's own name. Point the name that the certificate is for to it: an alias, or a CNAME."
  value       = aws_lb.this.dns_name
}

output "zone_id" {
  description = "The balancer's zone, for an alias in Route 53."
  value       = aws_lb.this.zone_id
}

output "cluster_name" {
  description = "The cluster's name."
  value       = aws_ecs_cluster.this.name
}

output "service_name" {
  description = "The service's name."
  value       = aws_ecs_service.this.name
}

output "task_role_name" {
  description = "The program's role."
  value       = aws_iam_role.task.name
}

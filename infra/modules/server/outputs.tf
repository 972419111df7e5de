output "dns_name" {
  description = "DNS name of the load balancer. Point the domain name of the certificate to it with an alias or a CNAME record."
  value       = aws_lb.this.dns_name
}

output "zone_id" {
  description = "Hosted zone id of the load balancer, for a Route 53 alias record."
  value       = aws_lb.this.zone_id
}

output "cluster_name" {
  description = "Name of the ECS cluster."
  value       = module.service.cluster_name
}

output "service_name" {
  description = "Name of the ECS service."
  value       = module.service.service_name
}

output "task_role_name" {
  description = "Name of the task role."
  value       = module.service.task_role_name
}

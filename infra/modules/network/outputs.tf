output "vpc_id" {
  description = "The network."
  value       = aws_vpc.this.id
}

output "public_subnet_ids" {
  description = "Its public subnets, one in each zone, once they are reached from outside; none without NAT gateways. For load balancers."
  value       = [for subnet in aws_subnet.public : subnet.id]
  depends_on  = [aws_route.public, aws_route_table_association.public]
}

output "private_subnet_ids" {
  description = "Its private subnets, one in each zone, once there is a way out of them."
  value       = [for subnet in aws_subnet.private : subnet.id]
  depends_on  = [aws_route.out, aws_vpc_endpoint.gateway, aws_vpc_endpoint.interface]
}

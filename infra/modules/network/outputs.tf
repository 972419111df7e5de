output "vpc_id" {
  description = "Id of the VPC."
  value       = aws_vpc.this.id
}

output "public_subnet_ids" {
  description = "Ids of the public subnets for load balancers, one in each zone. They depend on the internet route. Empty without NAT gateways."
  value       = [for subnet in aws_subnet.public : subnet.id]
  depends_on  = [aws_route.public, aws_route_table_association.public]
}

output "private_subnet_ids" {
  description = "Ids of the private subnets, one in each zone. They depend on the route to the NAT gateway."
  value       = [for subnet in aws_subnet.private : subnet.id]
  depends_on  = [aws_route.out, aws_vpc_endpoint.gateway, aws_vpc_endpoint.interface]
}

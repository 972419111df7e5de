variable "name" {
  description = "Name of the VPC."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,49}$", var.name))
    error_message = "The name must have 1 to 50 letters, digits and hyphens, and start with a letter."
  }
}

variable "region" {
  description = "AWS region of the VPC. The names of VPC endpoints contain it."
  type        = string
}

variable "zones" {
  description = "Names of the two availability zones. They are not queried from AWS, because a new zone would move subnets."
  type        = list(string)

  validation {
    condition     = length(var.zones) == 2 && length(distinct(var.zones)) == 2
    error_message = "Two different zones are required."
  }
}

variable "cidr_block" {
  description = "CIDR block of the VPC."
  type        = string
  default     = "10.40.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr_block, 0)) && can(regex("/1[6-9]$", var.cidr_block))
    error_message = "The CIDR block must be between /16 and /19, because a load balancer needs subnets of /27 or larger."
  }
}

variable "nat_gateways" {
  description = "Number of NAT gateways: 0 (no access beyond AWS), 1, or 2 (one in each zone)."
  type        = number
  default     = 1

  validation {
    condition     = contains([0, 1, 2], var.nat_gateways)
    error_message = "The number of NAT gateways must be 0, 1 or 2."
  }
}

variable "interface_endpoints" {
  description = "AWS services with a VPC endpoint. Each endpoint is billed hourly in each zone. Other services are reached through NAT."
  type        = set(string)
  default     = ["sqs", "ecr.api", "ecr.dkr", "logs", "secretsmanager"]
}

variable "log_retention_days" {
  description = "Retention of the flow log in days."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "The retention must be a value that CloudWatch Logs supports: 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or five to ten years."
  }
}

variable "kms_key_arn" {
  description = "ARN of the KMS key for the flow log. If null, CloudWatch Logs encrypts it with its own key."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags for all resources of this module."
  type        = map(string)
  default     = {}
}

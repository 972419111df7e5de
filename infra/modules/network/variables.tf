variable "name" {
  description = "The network's name."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,49}$", var.name))
    error_message = "A name is 1 to 50 letters, digits and dashes, and begins with a letter."
  }
}

variable "region" {
  description = "Where the network is; endpoints are named after it."
  type        = string
}

variable "zones" {
  description = "The two availability zones, by name: a list that AWS may lengthen would move subnets."
  type        = list(string)

  validation {
    condition     = length(var.zones) == 2 && length(distinct(var.zones)) == 2
    error_message = "There are two different zones."
  }
}

variable "cidr_block" {
  description = "The network's addresses."
  type        = string
  default     = "10.40.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr_block, 0)) && can(regex("/1[6-9]$", var.cidr_block))
    error_message = "This is a block of addresses between /16 and /19: a balancer wants subnets of /27 or larger."
  }
}

variable "nat_gateways" {
  description = "How many ways out there are: 0 (AWS only), 1, or 2 (one in each zone)."
  type        = number
  default     = 1

  validation {
    condition     = contains([0, 1, 2], var.nat_gateways)
    error_message = "There are two zones, so there are 0, 1 or 2."
  }
}

variable "interface_endpoints" {
  description = "Services that are reached within the network. Each is billed by the hour in each zone; what is left out goes through NAT."
  type        = set(string)
  default     = ["sqs", "ecr.api", "ecr.dkr", "logs", "secretsmanager"]
}

variable "log_retention_days" {
  description = "How long the flow log is kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or for five to ten years."
  }
}

variable "kms_key_arn" {
  description = "The customer key of the flow log; CloudWatch's own if there is none."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything made here."
  type        = map(string)
  default     = {}
}

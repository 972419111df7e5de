terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }

  # Configure the state backend with `terraform init -backend-config=…`, including encrypt = true and
  # use_lockfile = true.
  backend "s3" {}
}

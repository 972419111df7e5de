terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }

  # Where the state is, is yours to say: terraform init -backend-config=…
  # encrypt = true and use_lockfile = true belong among it.
  backend "s3" {}
}

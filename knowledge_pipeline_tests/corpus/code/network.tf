# A network and who may enter – nobody else.
terraform {
  required_version = ">= 1.6"
}

variable "region" {
  type    = string
  default = "eu-central-1"
}

locals {
  zones = ["a", "b"]
  names = { for zone in local.zones : zone => "${var.region}${zone}" }
}

# What others are in.
resource "aws_vpc" "main" {
  cidr_block = "10.0.0.0/16"

  tags = {
    Name = "main"
  }
}

resource "aws_security_group" "web" {
  vpc_id = aws_vpc.main.id

  dynamic "ingress" {
    for_each = var.public ? [443] : []
    content {
      from_port = ingress.value
      to_port   = ingress.value
    }
  }
}

data "aws_ami" "latest" {
  owners = ["self"]
}

module "dns" {
  source = "./modules/dns"
  zone   = aws_vpc.main.id
}

output "vpc" {
  value = aws_vpc.main.id
}

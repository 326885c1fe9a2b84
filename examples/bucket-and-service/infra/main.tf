terraform {
  backend "local" {}
}

variable "name" {}
variable "env" {}

resource "terraform_data" "bucket" {
  input = { name = var.name, env = var.env }
}

output "url" {
  value = "https://${terraform_data.bucket.output.name}-${terraform_data.bucket.output.env}.buckets.example"
}

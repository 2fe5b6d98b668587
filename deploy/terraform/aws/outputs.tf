output "cluster_name" {
  description = "Name of the cluster."
  value       = aws_eks_cluster.this.name
}

output "cluster_endpoint" {
  description = "Where the cluster's API answers."
  value       = aws_eks_cluster.this.endpoint
}

output "kubeconfig_command" {
  description = "Writes how to reach the cluster into the kubeconfig."
  value       = "aws eks update-kubeconfig --region ${var.region} --name ${aws_eks_cluster.this.name}"
}

output "bucket" {
  description = "Bucket of samples and artefacts."
  value       = aws_s3_bucket.this.bucket
}

output "registry" {
  description = "Where images are pushed."
  value       = split("/assay-server", aws_ecr_repository.this["assay-server"].repository_url)[0]
}

output "chart_values" {
  description = "Values of the chart that fit what was made."
  value = yamlencode({
    registry = split("/assay-server", aws_ecr_repository.this["assay-server"].repository_url)[0]
    objects = {
      url = "s3://${aws_s3_bucket.this.bucket}/assay"
      env = [{ name = "AWS_REGION", value = var.region }]
    }
    server     = { nodeSelector = { "assay/pool" = "system" }, persistence = { storageClass = "gp2" } }
    postgresql = { nodeSelector = { "assay/pool" = "system" }, persistence = { storageClass = "gp2" } }
    redis      = { nodeSelector = { "assay/pool" = "system" } }
    prometheus = { nodeSelector = { "assay/pool" = "system" } }
    agents     = []
  })
}

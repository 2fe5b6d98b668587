data "aws_caller_identity" "current" {}

# Samples and artefacts.
resource "aws_s3_bucket" "this" {
  bucket        = "${var.name}-${data.aws_caller_identity.current.account_id}-${var.region}"
  force_destroy = var.bucket_force_destroy
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket = aws_s3_bucket.this.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

# A large file that was cut on its way leaves parts behind, which are paid for and of no use.
resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "cut-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 3
    }
  }
}

data "aws_iam_policy_document" "server" {
  statement {
    actions   = ["s3:ListBucket", "s3:GetBucketLocation", "s3:ListBucketMultipartUploads"]
    resources = [aws_s3_bucket.this.arn]
  }

  statement {
    actions = [
      "s3:GetObject",
      "s3:PutObject",
      "s3:DeleteObject",
      "s3:AbortMultipartUpload",
      "s3:ListMultipartUploadParts",
    ]
    resources = ["${aws_s3_bucket.this.arn}/*"]
  }
}

resource "aws_iam_role" "server" {
  name_prefix        = "${var.name}-server-"
  assume_role_policy = data.aws_iam_policy_document.pods.json
}

resource "aws_iam_role_policy" "server" {
  name_prefix = "bucket-"
  role        = aws_iam_role.server.id
  policy      = data.aws_iam_policy_document.server.json
}

# The service account of the chart's server, in the namespace that `assay infra create --provider kubernetes` uses.
resource "aws_eks_pod_identity_association" "server" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "assay"
  service_account = "assay-server"
  role_arn        = aws_iam_role.server.arn
}

# The images of deploy/docker.
resource "aws_ecr_repository" "this" {
  for_each = toset(["assay-server", "assay-agent", "assay-agent-cuda"])

  name                 = "${var.name}/${each.key}"
  image_tag_mutability = "IMMUTABLE"
  force_delete         = true # images can be built again

  image_scanning_configuration {
    scan_on_push = true
  }
}

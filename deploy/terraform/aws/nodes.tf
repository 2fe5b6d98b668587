data "aws_iam_policy_document" "nodes" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "nodes" {
  name_prefix        = "${var.name}-nodes-"
  assume_role_policy = data.aws_iam_policy_document.nodes.json
}

resource "aws_iam_role_policy_attachment" "nodes" {
  for_each = toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"])

  role       = aws_iam_role.nodes.name
  policy_arn = "arn:aws:iam::aws:policy/${each.key}"
}

resource "aws_eks_node_group" "system" {
  cluster_name           = aws_eks_cluster.this.name
  node_group_name_prefix = "system-"
  node_role_arn          = aws_iam_role.nodes.arn
  subnet_ids             = aws_subnet.private[*].id
  ami_type               = "AL2023_x86_64_STANDARD"
  instance_types         = var.system_nodes.instance_types
  disk_size              = var.system_nodes.disk_gib
  labels                 = { "assay/pool" = "system" }

  scaling_config {
    min_size     = var.system_nodes.min
    max_size     = var.system_nodes.max
    desired_size = var.system_nodes.min
  }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [scaling_config[0].desired_size] # the autoscaler decides
  }

  depends_on = [aws_iam_role_policy_attachment.nodes, aws_eks_addon.early]
}

# Machines that measure are kept for that alone, and stay in one zone: two zones have different hosts and networks.
resource "aws_eks_node_group" "measuring" {
  for_each = var.node_groups

  cluster_name           = aws_eks_cluster.this.name
  node_group_name_prefix = "${each.key}-"
  node_role_arn          = aws_iam_role.nodes.arn
  subnet_ids             = [aws_subnet.private[0].id]
  instance_types         = [each.value.instance_type]
  disk_size              = each.value.disk_gib
  capacity_type          = each.value.spot ? "SPOT" : "ON_DEMAND"
  ami_type = (
    each.value.gpu ? "AL2023_x86_64_NVIDIA" : each.value.arm ? "AL2023_ARM_64_STANDARD" : "AL2023_x86_64_STANDARD"
  )

  labels = {
    "assay/pool"     = each.key
    "assay/instance" = each.value.instance_type
  }

  taint {
    key    = "assay/measures"
    value  = "only"
    effect = "NO_SCHEDULE"
  }

  dynamic "taint" {
    for_each = each.value.gpu ? [1] : []

    content {
      key    = "nvidia.com/gpu"
      value  = "present"
      effect = "NO_SCHEDULE"
    }
  }

  scaling_config {
    min_size     = 0
    max_size     = each.value.max
    desired_size = 0
  }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [scaling_config[0].desired_size] # the autoscaler decides
  }

  depends_on = [aws_iam_role_policy_attachment.nodes, aws_eks_addon.early]
}

# Makes GPUs known to the scheduler, on machines that have some.
resource "helm_release" "gpus" {
  count = anytrue([for one in values(var.node_groups) : one.gpu]) ? 1 : 0

  name       = "nvidia-device-plugin"
  namespace  = "kube-system"
  repository = "https://nvidia.github.io/k8s-device-plugin"
  chart      = "nvidia-device-plugin"
  version    = "0.17.1"

  values = [yamlencode({
    tolerations  = [{ operator = "Exists" }]
    nodeSelector = {}
    affinity = {
      nodeAffinity = {
        requiredDuringSchedulingIgnoredDuringExecution = {
          nodeSelectorTerms = [{
            matchExpressions = [{
              key      = "assay/pool"
              operator = "In"
              values   = [for name, one in var.node_groups : name if one.gpu]
            }]
          }]
        }
      }
    }
  })]

  depends_on = [aws_eks_node_group.system]
}

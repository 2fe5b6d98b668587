# Starts a machine when a job waits for one, and ends it when it is idle: from zero, and back to zero.
data "aws_iam_policy_document" "autoscaler" {
  statement {
    actions = [
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeLaunchConfigurations",
      "autoscaling:DescribeScalingActivities",
      "autoscaling:DescribeTags",
      "ec2:DescribeImages",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplateVersions",
      "ec2:GetInstanceTypesFromInstanceRequirements",
      "eks:DescribeNodegroup",
    ]
    resources = ["*"]
  }

  statement {
    actions   = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    resources = ["*"]

    # Only the machines of this cluster; the cloud puts this tag on every node group.
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.name}"
      values   = ["owned"]
    }
  }
}

resource "aws_iam_role" "autoscaler" {
  name_prefix        = "${var.name}-autoscaler-"
  assume_role_policy = data.aws_iam_policy_document.pods.json
}

resource "aws_iam_role_policy" "autoscaler" {
  name_prefix = "scale-"
  role        = aws_iam_role.autoscaler.id
  policy      = data.aws_iam_policy_document.autoscaler.json
}

resource "aws_eks_pod_identity_association" "autoscaler" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "kube-system"
  service_account = "cluster-autoscaler"
  role_arn        = aws_iam_role.autoscaler.arn
}

resource "helm_release" "autoscaler" {
  name       = "cluster-autoscaler"
  namespace  = "kube-system"
  repository = "https://kubernetes.github.io/autoscaler"
  chart      = "cluster-autoscaler"
  version    = "9.46.6"

  values = [yamlencode({
    awsRegion     = var.region
    autoDiscovery = { clusterName = aws_eks_cluster.this.name }
    rbac          = { serviceAccount = { name = "cluster-autoscaler" } }
    nodeSelector  = { "assay/pool" = "system" }
    extraArgs = {
      # A job that waits for a machine has its own deadline; an idle machine costs money.
      "scale-down-unneeded-time"         = "5m"
      "scale-down-delay-after-add"       = "5m"
      "max-node-provision-time"          = "15m"
      "balance-similar-node-groups"      = "false"
      "skip-nodes-with-local-storage"    = "false"
      "skip-nodes-with-system-pods"      = "false"
      "ignore-daemonsets-utilization"    = "true"
      "scale-down-utilization-threshold" = "0.01"
    }
  })]

  depends_on = [aws_eks_node_group.system, aws_eks_pod_identity_association.autoscaler, aws_iam_role_policy.autoscaler]
}

variable "name" {
  description = "Name of everything that is made."
  type        = string
  default     = "assay"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}[a-z0-9]$", var.name))
    error_message = "The name is made of small letters, digits and -, 2 to 32 of them, beginning with a letter."
  }
}

variable "region" {
  description = "Region of the cloud."
  type        = string
  default     = "us-east-1"
}

variable "tags" {
  description = "Further tags of everything that is made."
  type        = map(string)
  default     = {}
}

variable "kubernetes_version" {
  description = "Version of the cluster; the newest of the cloud when left out."
  type        = string
  default     = null
}

variable "zones" {
  description = "In how many zones there are machines; benchmarks that must compare stay in one."
  type        = number
  default     = 2

  validation {
    condition     = var.zones >= 2 && var.zones <= 4
    error_message = "The control plane needs at least 2 zones; the address plan has room for 4."
  }
}

variable "network" {
  description = "Addresses of the network."
  type        = string
  default     = "10.64.0.0/16"
}

variable "admin_networks" {
  description = "Networks from which the cluster's API may be reached, such as [\"203.0.113.7/32\"]."
  type        = list(string)

  validation {
    condition     = length(var.admin_networks) > 0 && alltrue([for one in var.admin_networks : can(cidrhost(one, 0))])
    error_message = "Name at least one network, such as 203.0.113.7/32 for one machine."
  }
}

variable "system_nodes" {
  description = "Machines of the server, its database and what the cluster itself needs."
  type = object({
    instance_types = optional(list(string), ["m7i.large"])
    min            = optional(number, 1)
    max            = optional(number, 3)
    disk_gib       = optional(number, 50)
  })
  default = {}
}

variable "node_groups" {
  description = "Machines that measure: none until a job asks for one. A kind for each instance type, so that results compare."
  type = map(object({
    instance_type = string
    gpu           = optional(bool, false)
    arm           = optional(bool, false)
    max           = optional(number, 2)
    disk_gib      = optional(number, 100)
    spot          = optional(bool, false)
  }))
  default = {
    cpu = { instance_type = "c7i.2xlarge" }
    gpu = { instance_type = "g5.xlarge", gpu = true }
  }

  validation {
    condition     = alltrue([for name, one in var.node_groups : can(regex("^[a-z][a-z0-9-]{0,20}$", name))])
    error_message = "A node group's name is made of up to 21 small letters, digits and -, beginning with a letter."
  }

  validation {
    condition     = alltrue([for one in values(var.node_groups) : !(one.gpu && one.arm)])
    error_message = "There is no machine image for GPUs on ARM here."
  }
}

variable "bucket_force_destroy" {
  description = "Whether `destroy` removes the bucket with everything in it."
  type        = bool
  default     = false
}

"""Brings the whole system up and takes it down again: on this machine, in a Kubernetes cluster, or in a cloud."""

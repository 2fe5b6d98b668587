"""What runs in the pods of a Kubernetes cluster: one job, measured, whose result leaves the pod by what it writes.

Nothing is shared between pods but what Kubernetes itself offers: documents come mounted, services are found by name,
results go out through the pod's log.
"""

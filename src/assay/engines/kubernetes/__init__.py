"""A campaign on a Kubernetes cluster, seen from outside: submitted, followed, collected from its pods, torn down."""

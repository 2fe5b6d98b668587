"""The objects of Kubernetes that a campaign is made of."""

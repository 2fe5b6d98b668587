"""The engine for Kubernetes: which objects jobs become, how they are reached, and what their states mean."""

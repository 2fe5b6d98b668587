"""What the cluster says about pods and jobs, and what it means."""

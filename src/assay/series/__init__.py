"""Results over time: points in, findings out."""

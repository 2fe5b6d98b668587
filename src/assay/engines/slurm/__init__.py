"""A campaign on a batch cluster, seen from the login node: submitted at once, followed, collected, torn down."""

"""A campaign on a batch cluster, seen from the login node: submitted as a whole, followed, collected, torn down."""

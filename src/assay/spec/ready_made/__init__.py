"""Ready-made service recipes: small files that users copy and change. Read by `assay recipes`."""

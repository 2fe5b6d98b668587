"""The tasks that come with assay, one module each."""

"""Files of a store in an object store: an S3-compatible bucket, or a folder that others mount."""

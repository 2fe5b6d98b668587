"""Stage 5: records in SQL, samples in columns by content hash. Listing never reads samples."""

"""Stage 2: a benchmark becomes jobs. Pure: expands the matrix, hashes each point, skips what is known."""

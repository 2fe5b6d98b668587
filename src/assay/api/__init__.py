"""The Python API: run a benchmark, read its results from a store or a server."""

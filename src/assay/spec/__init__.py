"""Stage 1: what the user wants. A benchmark file in, a validated `Benchmark` out."""

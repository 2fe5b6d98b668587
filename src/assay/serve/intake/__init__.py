"""What comes in: benchmarks, results, files, and agents added by their address."""

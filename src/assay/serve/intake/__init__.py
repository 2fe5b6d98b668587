"""What comes in: benchmarks, results, files, and agents that were told of by somebody."""

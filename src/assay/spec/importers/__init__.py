"""Documents of other tools, turned into benchmarks: one module per tool."""

"""Experiments on this machine: A against B in interleaved runs, and the search for the first bad commit or setting."""

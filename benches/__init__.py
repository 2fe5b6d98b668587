"""Our own speed beside peers, measured in one run: `python -m benches [overhead truth startup samples calibration]`."""

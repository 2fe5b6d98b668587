"""Stage 4: one job, measured. Each run is a fresh child process that goes through timed phases."""

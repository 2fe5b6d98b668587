"""Stage 6: what the numbers say and how far to trust them. Pure functions, no I/O."""

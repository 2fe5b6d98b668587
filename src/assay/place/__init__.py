"""Stage 3: a job finds its machine: what it needs against what the machine has."""

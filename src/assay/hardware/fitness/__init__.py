"""Whether this machine is fit to be measured on: its state before and after a job, and who measures on it."""

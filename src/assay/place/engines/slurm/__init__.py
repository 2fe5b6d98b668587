"""The Slurm engine: batch scripts, what Slurm says about them, and the shared folder that documents travel through."""

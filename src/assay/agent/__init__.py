"""The small program on a device: it takes jobs, has them measured by other processes, and loses nothing."""

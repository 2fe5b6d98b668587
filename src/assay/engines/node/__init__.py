"""What a process that measures a job elsewhere needs, whichever engine started it."""

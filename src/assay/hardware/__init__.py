"""What this machine is, and in which state: part of every result."""

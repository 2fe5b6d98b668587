"""The system as plain processes of this machine, and the process that keeps them running."""

"""How an agent has a job measured: by another process, which it watches and can end."""

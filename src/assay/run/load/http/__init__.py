"""Requests over HTTP, driven: one loop per client process that takes time stamps and keeps bytes, and nothing else."""

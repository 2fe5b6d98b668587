"""Engines: what moves a job document to a machine and its result document back."""

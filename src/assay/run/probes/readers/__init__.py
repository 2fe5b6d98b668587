"""Readers: each tells what one part of a machine, or one family of processes, has done so far and is now."""

"""What an agent needs to know about its machine, and how it becomes a part of it."""

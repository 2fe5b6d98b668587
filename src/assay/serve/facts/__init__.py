"""What pages show beside lists: pictures of a job, kept answers, sides held against each other, machines, prices."""

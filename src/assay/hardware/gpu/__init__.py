"""GPUs of this machine: found in layers, from the driver's own library down to what the kernel shows, and read."""

"""A small exporter for nodes that have none: the machine, its GPUs, and the metrics of services on it."""

"""Gray-box probes: a service's own metrics, its processes and GPUs, read while it is measured, by another process."""

from __future__ import annotations

from assay.run.probes.watching import FILE, Probe, Telemetry, watching

__all__ = ["FILE", "Probe", "Telemetry", "watching"]

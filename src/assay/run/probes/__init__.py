"""Gray-box probes: a service's own metrics, its processes and GPUs, read while it is measured, by another process."""

from __future__ import annotations

from assay.run.probes.service import FILE, ServiceProbe, Telemetry, service_probe

__all__ = ["FILE", "ServiceProbe", "Telemetry", "service_probe"]

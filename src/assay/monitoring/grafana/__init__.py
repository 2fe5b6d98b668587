"""Grafana: provisioning files and dashboards, for those who run it."""

from assay.monitoring.grafana.files import grafana_files

__all__ = ["grafana_files"]

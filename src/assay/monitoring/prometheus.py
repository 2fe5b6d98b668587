"""Prometheus itself: where its program is, how it is configured, and how it is started as a service of ours."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import MeasureError

if TYPE_CHECKING:
    from assay.spec.benchmark import Service
    from assay.spec.monitoring import Monitoring

VARIABLE = "ASSAY_PROMETHEUS"
NAME = "prometheus"
JOB = "assay"
"""The label `job` of what belongs to no job of the campaign alone."""
_INSIDE = "/assay-monitoring"  # where its folder is in a container
# Its own health and that of the Go runtime say nothing about what is measured.
_NOISE = "(go|promhttp|process_virtual)_.*|node_scrape_collector_.*"


def find_program(settings: Monitoring, environ: Mapping[str, str] | None = None) -> str | None:
    """The program that is to be started; None where an image is.

    Raises:
        MeasureError: if there is neither.
    """
    if settings.image is not None:
        return None
    env = os.environ if environ is None else environ
    wanted = settings.program or env.get(VARIABLE) or "prometheus"
    found = shutil.which(wanted, path=env.get("PATH"))
    if found is not None:
        return found
    raise MeasureError(
        f"monitoring was asked for, and there is no program {wanted!r}",
        code="no-prometheus",
        at="monitoring",
        try_=f"install Prometheus (Debian: `apt-get install prometheus`), name the program by {VARIABLE} or "
        "monitoring.program or an image by monitoring.image, or go on without it by `monitoring: {required: false}`",
    )


def configuration(discovery: str, settings: Monitoring) -> dict[str, Any]:
    """What Prometheus is told: which files name its targets, and how often to scrape them."""
    return {
        "global": {
            "scrape_interval": f"{round(settings.interval * 1e3)}ms",
            "scrape_timeout": f"{round(settings.interval * 1e3)}ms",
        },
        "scrape_configs": [
            {
                "job_name": JOB,
                "file_sd_configs": [{"files": [f"{discovery}/*.json"], "refresh_interval": "2s"}],
                "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": _NOISE, "action": "drop"}],
            }
        ],
    }


def prometheus_service(settings: Monitoring, folder: Path, discovery: Path) -> Service:
    """Prometheus as a service that is started and ended like every other one.

    Args:
        folder: for its configuration and data; on a disk of this machine, since its storage needs one.

    Raises:
        MeasureError: if there is nothing to start.
    """
    from assay.spec.benchmark import Ready, Service

    program = find_program(settings)
    at, targets = (str(folder), str(discovery)) if program else (_INSIDE, f"{_INSIDE}/discovery")
    data = folder / "data"
    data.mkdir(exist_ok=True)
    if program is None:
        data.chmod(0o777)  # images run it as a user of their own
    # JSON is YAML, with nothing to quote wrongly.
    (folder / "prometheus.yml").write_text(json.dumps(configuration(targets, settings), indent=2), encoding="utf-8")
    words = (
        program or "prometheus",
        f"--config.file={at}/prometheus.yml",
        f"--storage.tsdb.path={at}/data",
        f"--storage.tsdb.retention.time={round(settings.retention)}s",
        f"--web.listen-address={settings.listen}:{{port}}",
        "--log.level=warn",
    )
    ready = Ready(http="/-/ready", within=60.0)
    if program is not None:
        return Service(command=words, port=settings.port, ready=ready)
    mounts = {str(folder): _INSIDE, str(discovery): targets}
    return Service(
        image=settings.image,
        container=settings.container,
        command=words,
        mounts=mounts,
        port=settings.port,
        ready=ready,
    )

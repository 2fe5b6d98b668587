"""What is watched beside a load: the processes and the metrics of the service that answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import JsonValue

from assay.run.contract import Order
from assay.run.probes import ServiceProbe, service_probe
from assay.run.services import RunningService
from assay.spec.target import Tls


def tree_cpu_s(pid: int | None, *, ended: bool = False) -> float:
    """Processor time of a process and of all below it; 0 where there is none or it cannot be read.

    Args:
        ended: whether the children that have ended count too.
    """
    if pid is None:
        return 0.0
    try:
        first = psutil.Process(pid)
        tree = (first, *first.children(recursive=True))
        return sum(sum(process.cpu_times()[: 4 if ended else 2]) for process in tree)
    except psutil.Error:
        return 0.0


@contextmanager
def watched(
    order: Order,
    service: RunningService | None,
    metrics_url: str | None,
    metrics_address: str | None,
    headers: Mapping[str, str],
    tls: Tls,
) -> Iterator[ServiceProbe | None]:
    """Watch a service that runs here, or the metrics that it shows; a plain endpoint is left alone.

    Args:
        metrics_address: where the metrics are read, where that was checked.
        headers: as they stand in the file, where secrets are references.
    """
    scrapes = {} if metrics_url is None else {"service": metrics_url}
    pids = {"service": service.pid} if service is not None and service.pid else {}
    if not scrapes and not pids:
        yield None
        return
    with service_probe(
        scratch=Path(order.scratch),
        scrapes=scrapes,
        pids=pids,
        headers=headers,
        verify=tls.verify,
        ca=None if tls.ca is None else str(Path(order.job.base) / tls.ca),
        addresses={} if metrics_address is None else {"service": metrics_address},
    ) as probe:
        yield probe


def keep_telemetry(
    probe: ServiceProbe | None,
    window: tuple[int, int],
    facts: dict[str, JsonValue],
    absent: dict[str, str],
    files: dict[str, Path],
) -> None:
    """Keep what a probe saw in the measured window."""
    if probe is None:
        return
    seen = probe.finish(window)
    facts["telemetry"] = dict(seen.facts)
    if seen.server_view:
        facts["server_view"] = {source: dict(view) for source, view in seen.server_view.items()}
    absent |= dict(seen.absent)
    if seen.file is not None:
        files[seen.file.name] = seen.file

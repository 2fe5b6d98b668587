"""One node watched: its exporter, its GPUs and the services on it, made known to Prometheus for as long as it lasts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from assay.monitoring.discovery import LIVES, Target, targets, wait_until_seen
from assay.run.services import held
from assay.run.services.address import node_name
from assay.run.services.discovery import VARIABLE, ServiceDiscovery

if TYPE_CHECKING:
    from assay.spec.benchmark import Service
    from assay.spec.monitoring import Monitoring

NAME = "exporter"


@contextmanager
def watched_node(
    settings: Monitoring,
    discovery: Path,
    scratch: Path,
    labels: Mapping[str, str],
    *,
    who: str,
    services: Sequence[str] = (),
    host: str = "127.0.0.1",
    listen: str = "127.0.0.1",
    tell: Callable[[str], None] | None = None,
) -> Iterator[ServiceDiscovery]:
    """Have this node and the services that are started on it scraped for as long as the body runs.

    Args:
        labels: what belongs to every series: `campaign`, and `job` or `group` where it is of one alone.

    Raises:
        MeasureError: if the exporter cannot be started.
    """
    labels = {"node": node_name(), **labels}
    relay = scratch / "relay"
    for folder in (relay, discovery / LIVES):
        folder.mkdir(parents=True, exist_ok=True)
    service = _exporter(settings, relay, listen)
    with held({NAME: service}, scratch, scratch) as running:
        address = f"{host}:{running[NAME].port}"
        wanted = [*_of_the_node(settings, who, host, address, labels), *_of_services(who, address, labels, services)]
        with targets(discovery, wanted):
            late = wait_until_seen(discovery, [one.name for one in wanted], settings.within)
            if late and tell is not None:
                tell(f"monitoring: no scrape of {', '.join(sorted(late))} within {settings.within:g} s; going on")
            yield ServiceDiscovery(relay, discovery / LIVES, labels)


@contextmanager
def announcing(where: ServiceDiscovery) -> Iterator[None]:
    """Have the services announced that this process and its children start while the body runs."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = where.text()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def _exporter(settings: Monitoring, relay: Path, listen: str) -> Service:
    from assay.spec.benchmark import Ready, Service

    there = (settings.node_exporter is not None, settings.dcgm_exporter is not None)
    without = {(True, True): "both", (True, False): "machine", (False, True): "gpus"}.get(there)
    words = [
        sys.executable,
        "-m",
        "assay.monitoring.exporter",
        "--listen",
        listen,
        "--port",
        "{port}",
        "--relay",
        str(relay),
        "--timeout",
        f"{0.9 * settings.interval:g}",
    ]
    words += ["--without", without] if without else []
    return Service(command=tuple(words), ready=Ready(http="/", within=60.0))


def _of_the_node(settings: Monitoring, who: str, host: str, address: str, labels: Mapping[str, str]) -> list[Target]:
    found = [
        Target(f"{name}-{who}", f"{host}:{port}", labels)
        for name, port in (("node", settings.node_exporter), ("dcgm", settings.dcgm_exporter))
        if port is not None
    ]
    return found if len(found) == 2 else [*found, Target(f"exporter-{who}", address, labels)]


def _of_services(who: str, address: str, labels: Mapping[str, str], services: Sequence[str]) -> list[Target]:
    return [
        Target(f"service-{name}-{who}", address, {**labels, "service": name}, f"/relay/{name}") for name in services
    ]

"""Target files for Prometheus: nodes, exporters and services, announced for as long as they live."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.files import write_whole
from assay.run.services import held
from assay.run.services.discovery import VARIABLE, ServiceDiscovery, node_name

if TYPE_CHECKING:
    from assay.spec.benchmark import Monitoring, Service

SEEN = "seen.txt"
"""Beside the target files: the name of each target that was scraped at least once."""
LIVES = "lives"
"""Beside the target files: a folder with one file for each service that ran."""
_MODE = 0o644
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One thing to scrape."""

    name: str
    """Of its file; one of a campaign."""
    address: str
    """Host and port."""
    labels: Mapping[str, str]
    path: str = "/metrics"
    scheme: str = "http"


def add_target(folder: Path, target: ScrapeTarget) -> None:
    labels = {name: value for name, value in target.labels.items() if value}
    inner = {"__metrics_path__": target.path, "__scheme__": target.scheme}
    document = [{"targets": [target.address], "labels": {**labels, **inner}}]
    write_whole(folder / f"{target.name}.json", json.dumps(document, indent=1).encode(), mode=_MODE)


def remove_target(folder: Path, name: str) -> None:
    with suppress(OSError):
        (folder / f"{name}.json").unlink(missing_ok=True)


@contextmanager
def targets(folder: Path, wanted: Sequence[ScrapeTarget]) -> Iterator[None]:
    """Have some things scraped for as long as the body runs."""
    try:
        for target in wanted:
            add_target(folder, target)
        yield
    finally:
        for target in wanted:
            remove_target(folder, target.name)


def names(folder: Path) -> set[str]:
    """The targets that are to be scraped now."""
    return {path.stem for path in folder.glob("*.json")}


def seen(folder: Path) -> set[str]:
    """The targets that were scraped at least once."""
    try:
        return set((folder / SEEN).read_text(encoding="utf-8").split())
    except OSError:
        return set()


def note_scraped(folder: Path, names: set[str]) -> None:
    write_whole(folder / SEEN, "\n".join(sorted(names)).encode(), mode=_MODE)


def wait_until_scraped(folder: Path, wanted: Sequence[str], within_s: float) -> set[str]:
    """Wait until each target was scraped once; return those that were not in time."""
    until = time.monotonic() + within_s
    while missing := set(wanted) - seen(folder):
        if time.monotonic() > until:
            return missing
        time.sleep(_POLL_S)
    return set()


@dataclass(frozen=True, slots=True)
class Life:
    """From when to when a service ran."""

    service: str
    begin_s: float
    end_s: float | None
    """None where that is not known: it still ran, or its starter was killed."""
    labels: Mapping[str, str]

    def belongs(self, labels: Mapping[str, str]) -> bool:
        """Whether a series is of this service: on the same node and, where both say one, of the same job."""
        if labels.get("service") != self.service:
            return False
        return all(name not in self.labels or labels.get(name) in (None, self.labels[name]) for name in ("node", "job"))


def lives(folder: Path) -> tuple[Life, ...]:
    """Every life that is known in a folder of target files."""
    lives = []
    for path in sorted((folder / LIVES).glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            entry = json.loads(path.read_bytes())
            labels = {name: str(entry[name]) for name in ("campaign", "job", "node") if entry.get(name)}
            end_s = None if entry["end_s"] is None else float(entry["end_s"])
            lives.append(Life(str(entry["service"]), float(entry["begin_s"]), end_s, labels))
    return tuple(lives)


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
    notify: Callable[[str], None] | None = None,
) -> Iterator[ServiceDiscovery]:
    """Have this node and the services that are started on it scraped for as long as the body runs.

    Args:
        labels: what belongs to every series: `campaign`, and `job` or `group` where it is of one alone.
    """
    labels = {"node": node_name(), **labels}
    relay = scratch / "relay"
    for folder in (relay, discovery / LIVES):
        folder.mkdir(parents=True, exist_ok=True)
    service = _exporter(settings, relay, listen)
    with held({NAME: service}, scratch, scratch) as running:
        address = f"{host}:{running[NAME].port}"
        wanted = _of_the_node(settings, who, host, address, labels)
        wanted += [
            ScrapeTarget(f"service-{name}-{who}", address, {**labels, "service": name}, f"/relay/{name}")
            for name in services
        ]
        with targets(discovery, wanted):
            late = wait_until_scraped(discovery, [target.name for target in wanted], settings.within)
            if late and notify is not None:
                notify(f"monitoring: no scrape of {', '.join(sorted(late))} within {settings.within:g} s; continuing")
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
    program = (sys.executable, "-m", "assay.monitoring.exporter", "--listen", listen, "--port", "{port}")
    words = (*program, "--relay", str(relay), "--timeout", f"{0.9 * settings.interval:g}")
    return Service(command=(*words, *(("--without", without) if without else ())), ready=Ready(http="/", within=60.0))


def _of_the_node(
    settings: Monitoring, who: str, host: str, address: str, labels: Mapping[str, str]
) -> list[ScrapeTarget]:
    targets = [
        ScrapeTarget(f"{name}-{who}", f"{host}:{port}", labels)
        for name, port in (("node", settings.node_exporter), ("dcgm", settings.dcgm_exporter))
        if port is not None
    ]
    return targets if len(targets) == 2 else [*targets, ScrapeTarget(f"exporter-{who}", address, labels)]

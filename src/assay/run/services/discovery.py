"""Discovery of services by monitoring: where each one's metrics are, and from when to when it lived.

The process that measures starts its services on ports that are not known before. Where monitoring is on, an environment
variable names the folder in which a relay looks for them; without it nothing here does anything.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from assay.files import write_whole
from assay.run.services.service import RunningService

VARIABLE = "ASSAY_DISCOVERY"
DEFAULT_PATH = "/metrics"
# The scraper may be another user's process in a container.
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ServiceDiscovery:
    """Where and how services are announced."""

    relay: Path
    """Folder with one file for each service that runs on this machine now."""
    lives: Path
    """Folder with one file for each service that ran: from when to when."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What belongs to every one of them: campaign, job, node."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Service → where its metrics are: a path, or a URL of its own."""

    def text(self) -> str:
        """As the environment variable holds it."""
        return json.dumps(
            {"relay": str(self.relay), "lives": str(self.lives), "labels": dict(self.labels), "paths": dict(self.paths)}
        )

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ServiceDiscovery | None:
        """What the environment says; None where monitoring is off."""
        try:
            told = json.loads(environ[VARIABLE])
            return cls(Path(told["relay"]), Path(told["lives"]), told["labels"], told["paths"])
        except (KeyError, ValueError, TypeError):
            return None


@contextmanager
def announced(running: Mapping[str, RunningService]) -> Iterator[Mapping[str, RunningService]]:
    """Have services watched for as long as the body runs; a folder that is gone costs the metrics, never a run."""
    where = ServiceDiscovery.of(os.environ)
    if where is None:
        yield running
        return
    urls = {name: metrics_url(where.paths.get(name), one.base_url) for name, one in running.items()}
    with living(where, urls):
        yield running


@contextmanager
def living(where: ServiceDiscovery, urls: Mapping[str, str]) -> Iterator[None]:
    """Have some addresses scraped under a name for as long as the body runs."""
    lives = [_Life(where, name, url) for name, url in urls.items()]
    try:
        for life in lives:
            life.begin()
        yield
    finally:
        for life in lives:
            life.end()


def metrics_url(given: str | None, base_url: str) -> str:
    from urllib.parse import urljoin, urlsplit

    if given is not None and "://" in given:
        return given
    root = urlsplit(base_url)
    return urljoin(f"{root.scheme}://{root.netloc}", given or DEFAULT_PATH)


class _Life:
    """One service from its announcement to its end."""

    def __init__(self, where: ServiceDiscovery, name: str, url: str) -> None:
        self._where, self._name, self._url = where, name, url
        self._begin_s = 0.0
        self._file = where.lives / f"{name}-{uuid.uuid4().hex[:12]}.json"

    def begin(self) -> None:
        self._begin_s = time.time()
        self._write(None)
        with suppress(OSError):
            write_whole(self._where.relay / f"{self._name}.json", json.dumps({"url": self._url}).encode(), mode=_MODE)

    def end(self) -> None:
        """Say that it goes, before it does: what fails from now on is no failure."""
        if self._begin_s:
            self._write(time.time())
            with suppress(OSError):
                (self._where.relay / f"{self._name}.json").unlink(missing_ok=True)

    def _write(self, end_s: float | None) -> None:
        told = {**self._where.labels, "service": self._name, "url": self._url, "begin_s": self._begin_s, "end_s": end_s}
        with suppress(OSError):
            write_whole(self._file, json.dumps(told).encode(), mode=_MODE)

"""Prometheus held for as long as something is watched, with a thread that tells which targets it has reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import MeasureError
from assay.monitoring.api import Api
from assay.monitoring.discovery import LIVES, names, note_seen, seen
from assay.monitoring.export import export
from assay.monitoring.prometheus import NAME, prometheus_service

if TYPE_CHECKING:
    from assay.spec.monitoring import Monitoring
    from assay.store.telemetry import Metrics

# Only while a target is new; afterwards Prometheus is left in peace.
_ASK_EVERY_S = 0.25


class Scraping:
    """A Prometheus that runs."""

    def __init__(self, api: Api, port: int, settings: Monitoring, discovery: Path) -> None:
        self.api, self.port, self.settings, self.discovery = api, port, settings, discovery
        self.kinds: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Begin to note which targets were scraped."""
        self._thread.start()

    def end(self) -> None:
        """Stop noting."""
        self._stop.set()
        self._thread.join(timeout=5.0)

    def export(self, labels: Mapping[str, str], begin_s: float, end_s: float) -> Metrics:
        """What was scraped in a stretch of time.

        Raises:
            MeasureError: if Prometheus does not answer.
        """
        return export(self.api, labels, begin_s, end_s, self.settings, self.kinds)

    def _follow(self) -> None:
        found = seen(self.discovery)
        while not self._stop.wait(_ASK_EVERY_S):
            if names(self.discovery) <= found:
                continue
            try:
                reached = scraped(self.api)
                if reached - found:
                    found |= reached
                    self.kinds |= self.api.kinds()
                    note_seen(self.discovery, found)
            except (MeasureError, OSError):
                continue  # it is asked again; whoever waits for it does so for a bounded time


def scraped(api: Api) -> set[str]:
    """The targets, by the name of their file, that were scraped at least once."""
    told = [one for one in api.targets() if one.get("health") in ("up", "down")]
    return {Path(one["discoveredLabels"].get("__meta_filepath", "")).stem for one in told}


@contextmanager
def scraping(
    settings: Monitoring, discovery: Path, scratch: Path, tell: Callable[[str], None] | None = None
) -> Iterator[Scraping]:
    """Start Prometheus, and end it with the body.

    Raises:
        MeasureError: if it is not there, or does not get ready.
    """
    from assay.run.services import held

    for folder in (discovery, discovery / LIVES, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    service = prometheus_service(settings, scratch, discovery)
    with held({NAME: service}, scratch, scratch, tell=tell) as running:
        one = Scraping(Api(running[NAME].base_url), running[NAME].port, settings, discovery)
        one.start()
        try:
            yield one
        finally:
            one.end()

"""Target files for Prometheus, and what is known of services that came and went."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from assay.files import write_whole

SEEN = "seen.txt"
"""Beside the target files: the name of each target that was scraped at least once."""
LIVES = "lives"
"""Beside the target files: a folder with one file for each service that ran."""
_MODE = 0o644
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to scrape."""

    name: str
    """Of its file; one of a campaign."""
    address: str
    """Host and port."""
    labels: Mapping[str, str]
    path: str = "/metrics"
    scheme: str = "http"


def target_of(name: str, url: str, labels: Mapping[str, str]) -> Target:
    parts = urlsplit(url)
    path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
    return Target(name, parts.netloc.rpartition("@")[2], labels, path, parts.scheme or "http")


def add_target(folder: Path, target: Target) -> None:
    """Have something scraped from now on."""
    labels = {name: value for name, value in target.labels.items() if value}
    inner = {"__metrics_path__": target.path, "__scheme__": target.scheme}
    document = [{"targets": [target.address], "labels": {**labels, **inner}}]
    write_whole(folder / f"{target.name}.json", json.dumps(document, indent=1).encode(), mode=_MODE)


def remove_target(folder: Path, name: str) -> None:
    """Have something scraped no longer."""
    with suppress(OSError):
        (folder / f"{name}.json").unlink(missing_ok=True)


@contextmanager
def targets(folder: Path, wanted: Sequence[Target]) -> Iterator[None]:
    """Have some things scraped for as long as the body runs."""
    try:
        for one in wanted:
            add_target(folder, one)
        yield
    finally:
        for one in wanted:
            remove_target(folder, one.name)


def names(folder: Path) -> set[str]:
    """The targets that are to be scraped now."""
    return {path.stem for path in folder.glob("*.json")}


def seen(folder: Path) -> set[str]:
    """The targets that were scraped at least once."""
    try:
        return set((folder / SEEN).read_text(encoding="utf-8").split())
    except OSError:
        return set()


def note_seen(folder: Path, found: set[str]) -> None:
    """Note which targets were scraped."""
    write_whole(folder / SEEN, "\n".join(sorted(found)).encode(), mode=_MODE)


def wait_until_seen(folder: Path, wanted: Sequence[str], within_s: float) -> set[str]:
    """Wait until each target was scraped once; return those that were not in time."""
    until = time.monotonic() + within_s
    while missing := set(wanted) - seen(folder):
        if time.monotonic() > until:
            return missing
        time.sleep(_LOOK_EVERY_S)
    return set()


@dataclass(frozen=True, slots=True)
class Life:
    """From when to when a service ran."""

    service: str
    begin_s: float
    end_s: float | None
    """None where nobody said: it ran on, or whoever started it was killed."""
    labels: Mapping[str, str]

    def belongs(self, labels: Mapping[str, str]) -> bool:
        """Whether a series is of this service: on the same node and, where both say one, of the same job."""
        if labels.get("service") != self.service:
            return False
        return all(name not in self.labels or labels.get(name) in (None, self.labels[name]) for name in ("node", "job"))


def lives(folder: Path) -> tuple[Life, ...]:
    """Every life that is known in a folder of target files."""
    found = []
    for path in sorted((folder / LIVES).glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(path.read_bytes())
            labels = {name: str(told[name]) for name in ("campaign", "job", "node") if told.get(name)}
            end_s = None if told["end_s"] is None else float(told["end_s"])
            found.append(Life(str(told["service"]), float(told["begin_s"]), end_s, labels))
    return tuple(found)

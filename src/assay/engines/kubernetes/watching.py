"""What Kubernetes tells about a campaign, kept up to date by threads of its own that go on after every break."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from assay.engines.kubernetes.client.api import SILENT, Api, Change, Document, Kind, metadata, name_of, uid_of
from assay.engines.kubernetes.client.mirror import Mirror
from assay.engines.kubernetes.objects.names import of_campaign
from assay.errors import MeasureError

KINDS: tuple[Kind, ...] = ("Job", "Pod")
# One watch lasts so long; then the next goes on from where it was.
_WATCH_S = 240.0
_AGAIN_S, _SLOWEST_S = 0.5, 5.0
_TOGETHER_S = 0.05


@dataclass(slots=True)
class Watching:
    """The objects of a campaign as they are now, and as they were last before they went."""

    api: Api
    campaign: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _there: dict[tuple[str, str], Document] = field(default_factory=dict)
    _gone: dict[str, Document] = field(default_factory=dict)
    """Uid → how an object was told of last."""
    _changed: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)
    _listed: dict[str, threading.Event] = field(default_factory=lambda: {kind: threading.Event() for kind in KINDS})
    _troubles: dict[str, MeasureError] = field(default_factory=dict)
    """Kind → why nothing is told of it now."""

    def objects(self, kind: Kind) -> tuple[Document, ...]:
        with self._lock:
            return tuple(self._there[key] for key in sorted(self._there) if key[0] == kind)

    def gone(self, kind: Kind) -> tuple[Document, ...]:
        """What was there and went while it was watched."""
        with self._lock:
            return tuple(one for one in self._gone.values() if one.get("kind", kind) == kind)

    def wait(self, seconds: float) -> bool:
        """Wait until something has changed, at most so long; whether it has."""
        changed = self._changed.wait(seconds)
        if changed:  # what changes together is looked at together
            self._closing.wait(_TOGETHER_S)
        self._changed.clear()
        return changed

    def wait_listed(self) -> None:
        """Wait until everything was told once.

        Raises:
            MeasureError: if that will never be.
        """
        while not all(one.wait(0.1) for one in self._listed.values()):
            self.refuse_lasting()

    def trouble(self) -> MeasureError | None:
        """Why Kubernetes is silent now; None while it tells."""
        with self._lock:
            return next(iter(self._troubles.values()), None)

    def refuse_lasting(self) -> None:
        """Raise if nothing will be told any more, however long one waits.

        Raises:
            MeasureError: what the server said.
        """
        problem = self.trouble()
        if problem is not None and problem.problem.code != SILENT:
            raise problem

    def _watch(self, kind: Kind) -> None:
        mirror = Mirror(self.api, kind, of_campaign(self.campaign), tell=lambda change: self._take(kind, change))
        pause_s = _AGAIN_S
        while not self._closing.is_set():
            try:
                mirror.look(_WATCH_S)
            except MeasureError as problem:
                self._note(kind, problem)
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, _SLOWEST_S)
                continue
            pause_s = _AGAIN_S
            self._note(kind, None)
            if not self._listed[kind].is_set():
                self._listed[kind].set()
                self._changed.set()

    def _take(self, kind: Kind, change: Change) -> None:
        with self._lock:
            key = (kind, name_of(change.item))
            if change.what == "DELETED":
                known = self._there.get(key)
                if known is not None and uid_of(known) == uid_of(change.item):
                    del self._there[key]
                self._gone[uid_of(change.item)] = ended(change.item, kind)
            else:
                self._there[key] = change.item
            self._troubles.pop(kind, None)
        self._changed.set()

    def _note(self, kind: Kind, problem: MeasureError | None) -> None:
        with self._lock:
            if problem is None:
                self._troubles.pop(kind, None)
            else:
                self._troubles[kind] = problem
        if problem is not None:
            self._changed.set()


def ended(document: Document, kind: Kind) -> Document:
    """An object as it was last told of, marked as deleted where that was not told before: it is gone now."""
    about: Mapping[str, Any] = metadata(document)
    if about.get("deletionTimestamp"):
        return {"kind": kind, **document}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"kind": kind, **document, "metadata": {**about, "deletionTimestamp": now}}


@contextmanager
def watching(api: Api, campaign: str) -> Iterator[Watching]:
    """Watch a campaign for as long as the body runs."""
    found = Watching(api, campaign)
    threads = [threading.Thread(target=found._watch, args=(kind,), name=f"watch-{kind}", daemon=True) for kind in KINDS]
    for one in threads:
        one.start()
    try:
        yield found
    finally:
        # They hang in a read that may last for minutes, hold nothing, and end with this process.
        found._closing.set()

"""What is in the cluster now, by list and watch: cut off, it continues where it was; too late, it lists again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from assay.engines.kubernetes.client.api import (
    SILENT,
    Change,
    Document,
    Expired,
    Kind,
    ObjectList,
    metadata,
    name_of,
    uid_of,
    version_of,
)
from assay.engines.kubernetes.client.client import Client
from assay.engines.kubernetes.objects.names import of_campaign
from assay.errors import MeasureError

KINDS: tuple[Kind, ...] = ("Job", "Pod")
# How long one watch lasts; the next continues from where it was.
_WATCH_S = 240.0
_AGAIN_S, _SLOWEST_S = 0.5, 5.0
_TOGETHER_S = 0.05


@dataclass(slots=True)
class Mirror:
    """The objects of one kind that carry some labels, as the server last reported them.

    It is used by one thread; every change is kept before it is passed on, so that a break loses nothing.
    """

    api: Client
    kind: Kind
    selector: str = ""
    fields: str = ""
    notify: Callable[[Change], None] | None = None
    """Gets every change, and what a new list shows to have changed meanwhile."""
    _items: dict[str, Document] = field(default_factory=dict)
    _since: str = ""

    @property
    def items(self) -> tuple[Document, ...]:
        """The objects, by name."""
        return tuple(self._items[name] for name in sorted(self._items))

    @property
    def since(self) -> str:
        """How far it is; empty before the first list."""
        return self._since

    def get(self, name: str) -> Document | None:
        return self._items.get(name)

    def refresh(self) -> None:
        """List everything now."""
        self._take(self.api.list(self.kind, self.selector, fields=self.fields))

    def poll(self, within_s: float) -> int:
        """Wait for changes and keep them, at most for a time; return how many there were.

        Args:
            within_s: how long to watch; it may end earlier, where the server ends it.
        """
        if not self._since:
            before = dict(self._items)
            self.refresh()
            return sum(1 for _ in differences(before, self._items))
        count = 0
        try:
            for change in self.api.watch(
                self.kind, self.selector, fields=self.fields, since=self._since, within_s=within_s
            ):
                count += self._keep(change)
        except Expired:
            before = dict(self._items)
            self._since = ""
            self.refresh()
            count += sum(1 for _ in differences(before, self._items))
        return count

    def _keep(self, change: Change) -> bool:
        self._since = change.version or self._since
        if change.what == "BOOKMARK":
            return False
        name = name_of(change.item)
        if change.what == "DELETED":
            self._items.pop(name, None)
        else:
            self._items[name] = change.item
        if self.notify is not None:
            self.notify(change)
        return True

    def _take(self, listed: ObjectList) -> None:
        before, self._items = self._items, {name_of(document): document for document in listed.items}
        self._since = listed.version
        if self.notify is not None:
            for change in differences(before, self._items):
                self.notify(change)


def differences(before: dict[str, Document], after: dict[str, Document]) -> Iterator[Change]:
    """What must have happened between two moments; what came and went in between is not known."""
    for name, old in before.items():
        if name not in after or uid_of(after[name]) != uid_of(old):
            yield Change("DELETED", old)
    for name, new in after.items():
        previous = before.get(name)
        if previous is None or uid_of(previous) != uid_of(new):
            yield Change("ADDED", new)
        elif version_of(previous) != version_of(new):
            yield Change("MODIFIED", new)


@dataclass(slots=True)
class CampaignWatch:
    """The objects of a campaign as they are now, and as they were last before they went."""

    api: Client
    campaign: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _there: dict[tuple[str, str], Document] = field(default_factory=dict)
    _gone: dict[str, Document] = field(default_factory=dict)
    """Uid → how an object was last reported."""
    _changed: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)
    _listed: dict[str, threading.Event] = field(default_factory=lambda: {kind: threading.Event() for kind in KINDS})
    _troubles: dict[str, MeasureError] = field(default_factory=dict)
    """Kind → why nothing is known of it now."""

    def objects(self, kind: Kind) -> tuple[Document, ...]:
        with self._lock:
            return tuple(self._there[key] for key in sorted(self._there) if key[0] == kind)

    def gone(self, kind: Kind) -> tuple[Document, ...]:
        """What was there and went while it was watched."""
        with self._lock:
            return tuple(document for document in self._gone.values() if document.get("kind", kind) == kind)

    def wait(self, seconds: float) -> bool:
        """Wait until something has changed, at most so long; whether it has."""
        changed = self._changed.wait(seconds)
        if changed:  # what changes together is looked at together
            self._closing.wait(_TOGETHER_S)
        self._changed.clear()
        return changed

    def wait_listed(self) -> None:
        """Wait until everything was listed once."""
        while not all(event.wait(0.1) for event in self._listed.values()):
            self.refuse_lasting()

    def trouble(self) -> MeasureError | None:
        """Why Kubernetes is silent now; None while it tells."""
        with self._lock:
            return next(iter(self._troubles.values()), None)

    def refuse_lasting(self) -> None:
        """Raise if no waiting will help."""
        problem = self.trouble()
        if problem is not None and problem.problem.code != SILENT:
            raise problem

    def _watch(self, kind: Kind) -> None:
        mirror = Mirror(self.api, kind, of_campaign(self.campaign), notify=lambda change: self._take(kind, change))
        pause_s = _AGAIN_S
        while not self._closing.is_set():
            try:
                mirror.poll(_WATCH_S)
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
                existing = self._there.get(key)
                if existing is not None and uid_of(existing) == uid_of(change.item):
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
    """An object as it was last reported, marked as deleted where it was not before: it is gone now."""
    about: Mapping[str, Any] = metadata(document)
    if about.get("deletionTimestamp"):
        return {"kind": kind, **document}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"kind": kind, **document, "metadata": {**about, "deletionTimestamp": now}}


@contextmanager
def watch_campaign(api: Client, campaign: str) -> Iterator[CampaignWatch]:
    """Watch a campaign for as long as the body runs."""
    watch = CampaignWatch(api, campaign)
    threads = [threading.Thread(target=watch._watch, args=(kind,), name=f"watch-{kind}", daemon=True) for kind in KINDS]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        # They hang in a read that may last for minutes, hold nothing, and end with this process.
        watch._closing.set()

"""What an agent does right now, as all its threads see it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Literal

from assay.place.fleet.protocol import AgentState, Heartbeat, Held

Stop = Callable[[Literal["lost", "given back"]], None]


class Board:
    """The leases that an agent holds, what it does under each, and what is wrong with it."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self._lock = threading.Condition()
        self._measured: dict[Held, Stop] = {}
        self._delivered: set[Held] = set()
        self._faults: dict[str, str] = {}
        self.draining = False

    def measuring(self, held: Held, stop: Stop) -> None:
        """An attempt began; `stop` is called when its lease is lost or must be given back."""
        with self._lock:
            self._measured[held] = stop
        self.changed.set()

    def delivering(self, held: Held) -> None:
        """An attempt ended; what came of it is on its way."""
        with self._lock:
            self._measured.pop(held, None)
            self._delivered.add(held)
            self._lock.notify_all()
        self.changed.set()

    def done(self, held: Held) -> None:
        """The server has acknowledged an attempt's end, or took its lease away."""
        with self._lock:
            self._measured.pop(held, None)
            self._delivered.discard(held)
            self._lock.notify_all()
        self.changed.set()

    def lost(self, leases: Iterable[Held]) -> None:
        """Stop the attempts whose leases are another's now; finished ones are delivered all the same."""
        with self._lock:
            stops = [stop for held in leases if (stop := self._measured.get(held))]
        for stop in stops:
            stop("lost")

    def stop_all(self) -> None:
        """Stop every attempt; their leases are given back."""
        with self._lock:
            stops = list(self._measured.values())
        for stop in stops:
            stop("given back")

    def fault(self, source: str, note: str) -> None:
        """Say that something is wrong, or with an empty note that it is well again."""
        with self._lock:
            if self._faults.get(source, "") == note:
                return
            self._faults[source] = note
            if not note:
                del self._faults[source]
        self.changed.set()

    def is_idle(self) -> bool:
        """Whether nothing is measured."""
        with self._lock:
            return not self._measured

    def wait_idle(self, timeout_s: float | None) -> bool:
        """Wait until nothing is measured; False when time ran out."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._measured, timeout_s)

    def wait_clear(self, timeout_s: float) -> bool:
        """Wait until nothing is on its way; False when time ran out."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._delivered, timeout_s)

    def beat(self) -> Heartbeat:
        with self._lock:
            held = (*self._measured, *self._delivered)
            return Heartbeat(self._state(), held, "; ".join(self._faults.values()))

    def _state(self) -> AgentState:
        if self._faults:
            return "faulty"
        if self._measured:
            return "busy"
        return "cleanup" if self._delivered else "active"

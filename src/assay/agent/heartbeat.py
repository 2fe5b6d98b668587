"""What an agent tells its server while it works: which leases it holds, by heartbeats, and how far each attempt is."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import AssayError
from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import AgentState, Enrolled, Heartbeat, HeartbeatAnswer, Held, Progress
from assay.place.fleet.transport import back_off_s

Stop = Callable[[Literal["lost", "given back"]], None]
_log = logging.getLogger("assay.agent")
# Jobs of a moment change the state often; the server learns of those from the leases themselves.
_AT_LEAST_S = 1.0
_BETWEEN_S = 1.0
_POLL_S = 60.0
_MAX_LINES = 500
_MAX_LINE = 2000


class HeldLeases:
    """The leases that an agent holds, what it does under each, and what is wrong with it."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self._lock = threading.Condition()
        self._measured: dict[Held, Stop] = {}
        self._delivered: set[Held] = set()
        self._faults: dict[str, str] = {}
        self.draining = False

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            yield
            self._lock.notify_all()
        self.changed.set()

    def measuring(self, held: Held, stop: Stop) -> None:
        """An attempt began; `stop` is called when its lease is lost or must be given back."""
        with self._changing():
            self._measured[held] = stop

    def delivering(self, held: Held) -> None:
        """An attempt ended; what came of it is on its way."""
        with self._changing():
            self._measured.pop(held, None)
            self._delivered.add(held)

    def done(self, held: Held) -> None:
        """The server has acknowledged an attempt's end, or took its lease away."""
        with self._changing():
            self._measured.pop(held, None)
            self._delivered.discard(held)

    def lost(self, leases: Iterable[Held]) -> None:
        """Stop the attempts whose leases are another's now; finished ones are delivered anyway."""
        with self._lock:
            stops = [stop for held in leases if (stop := self._measured.get(held))]
        for stop in stops:
            stop("lost")

    def stop_all(self) -> None:
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


class HeartbeatLoop:
    """Sends heartbeats also while the agent measures: the measuring happens in other processes. Knows no calendar."""

    def __init__(
        self,
        client: FleetClient,
        leases: HeldLeases,
        enrolled: Enrolled,
        enrol: Callable[[], Enrolled],
        ended: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._leases = leases
        self._enrol = enrol
        self._ended = ended
        self._clock = clock
        self._failures = 0
        self.enrolled = enrolled

    def start(self) -> None:
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._leases.changed.clear()
            began_s = self._clock.monotonic_s()
            try:
                self.beat()
            except Exception:  # a defect here must not silence the agent
                self._failures += 1
                _log.exception("heartbeat failed")
            self._rest(began_s)

    def beat(self) -> None:
        """Send one heartbeat and do what its answer says."""
        sent = self._leases.beat()
        try:
            self._obey(self._client.heartbeat(self.enrolled.agent, sent))
        except RefusedError as problem:
            self._failures += 1
            if problem.problem.code == "unknown-agent" or problem.status in (404, 410):
                self._come_back(problem.problem.message)
            else:
                _log.warning("heartbeat refused: [%s] %s", problem.problem.code, problem.problem.message)
        except AssayError as problem:
            self._failures += 1
            level = logging.WARNING if self._failures == 1 else logging.DEBUG
            _log.log(level, "heartbeat failed: %s; trying again", problem.problem.message)
        else:
            if self._failures:
                _log.info("the server is back")
            self._failures = 0

    def _obey(self, answer: HeartbeatAnswer) -> None:
        for held in answer.lost:
            _log.info("lease lost job=%s fence=%d", held.job, held.fence)
        self._leases.lost(answer.lost)
        if answer.draining != self._leases.draining:
            self._leases.draining = answer.draining
            _log.info("the server gives this agent %s", "no further jobs" if answer.draining else "jobs again")
        if answer.leave:
            self._come_back("the server removed it")

    def _come_back(self, why: str) -> None:
        """Enrol again; leases that were given to others meanwhile are lost with the next beat."""
        _log.warning("the server does not know this agent (%s): enrolling again", why)
        try:
            self.enrolled = self._enrol()
        except AssayError as problem:
            _log.warning("cannot enrol: %s", problem.problem.message)

    def _rest(self, began_s: float) -> None:
        """Wait for the next beat; less when something changed, more when no server answers."""
        every_s = self.enrolled.heartbeat_s
        if self._failures:
            self._ended.wait(back_off_s(self._failures, every_s))
            return
        self._leases.changed.wait(every_s)
        spent_s = self._clock.monotonic_s() - began_s
        if spent_s < min(_AT_LEAST_S, every_s):
            self._ended.wait(min(_AT_LEAST_S, every_s) - spent_s)


@dataclass(slots=True)
class _News:
    """What the server does not know yet of one attempt."""

    last: Progress
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_LINES))
    """Older lines make room for newer ones."""


class ProgressSender:
    """Sends progress from a thread of its own, at most once a second; what is overtaken is never sent."""

    def __init__(self, client: FleetClient, on_lost: Callable[[Held], None], ended: threading.Event) -> None:
        self._client = client
        self._on_lost = on_lost
        self._ended = ended
        self._news: dict[Held, _News] = {}
        self._lock = threading.Condition()
        self._sending: Held | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="progress", daemon=True).start()

    def note(self, held: Held, progress: Progress) -> None:
        """Take the newest state of an attempt, with its new log lines; returns immediately."""
        with self._lock:
            news = self._news.setdefault(held, _News(progress))
            news.last = progress
            news.lines.extend(line[:_MAX_LINE] for line in progress.log)
            self._lock.notify_all()

    def finish(self, held: Held, timeout_s: float = 2.0) -> None:
        """Send the last lines of an attempt that has ended; whatever else was to be reported of it is obsolete."""
        with self._lock:
            self._lock.wait_for(lambda: self._sending != held, timeout_s)
            news = self._news.pop(held, None)
        if news is not None and news.lines:
            self._send(held, news)

    def _run(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                if not self._lock.wait_for(lambda: bool(self._news), _POLL_S):
                    continue
                held, news = next(iter(self._news.items()))
                del self._news[held]
                self._sending = held
            self._send(held, news)
            with self._lock:
                self._sending = None
                self._lock.notify_all()
                others = len(self._news)
            # Whatever happens within this second is reported together.
            self._ended.wait(_BETWEEN_S / max(others, 1))

    def _send(self, held: Held, news: _News) -> None:
        message = replace(news.last, log=tuple(news.lines))
        try:
            if not self._client.progress(held.job, held.fence, message):
                self._on_lost(held)
        except AssayError as problem:
            _log.debug("progress dropped job=%s: %s", held.job, problem.problem.message)
        except Exception:  # a defect here must not end the thread
            _log.exception("progress dropped job=%s", held.job)

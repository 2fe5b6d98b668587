"""The loop of one client process: it sends what is due, notes what arrives, and knows when to stop."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.run.load.http.connection import UNCONNECTED, ClientConnection
from assay.run.load.http.origin import Origin
from assay.run.load.http.poller import make_poller
from assay.run.load.http.recording import CODE, MEASURE, WARMUP, ClientCost, LoadRecording, RequestColumns
from assay.run.load.shape import Shape
from assay.run.load.timing import quiet_collector

TICK_NS = 50_000_000
_OK, _SKIPPED = CODE["ok"], CODE["skipped"]
_CONNECTION = frozenset(CODE[name] for name in ("refused", "unresolved", "tls", "proxy", "reset"))
# The loop's busy stretches are counted in bins of this width; a stretch beyond the last bin counts as the last.
_LAG_BIN_NS, _LAG_BINS = 20_000, 25_000
# Nothing answered at all: after this many failures and this long, another attempt gives no new information.
_HOPELESS, _HOPELESS_NS = 20, 3_000_000_000
_RECENT = 100
# A progress note is made this seldom; its rate is that of the last few of them.
_NOTE_NS, _NOTES = 500_000_000, 10
# A server that is there takes a connection in a moment; one that does not speak TLS would never complete it.
_CONNECT_NS = 10_000_000_000


class Supply(Protocol):
    """Where requests come from, as bytes; asked while the clock runs, so it must be quick."""

    @property
    def conversations(self) -> bool:
        """Whether an answer may be followed by another turn."""

    def first(self, session: int) -> bytes:
        """The request that opens a session."""

    def then(self, session: int, turn: int, body: bytes) -> bytes | None:
        """The next turn after an answer; None when the conversation is over."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Requests that do not depend on answers, again and again in the same order."""

    wires: Sequence[bytes]
    conversations: bool = False

    def first(self, session: int) -> bytes:
        return self.wires[session % len(self.wires)]

    def then(self, session: int, turn: int, body: bytes) -> None:
        """Nothing follows."""


@dataclass(frozen=True, slots=True)
class LoadWarmup:
    """How long to load before measuring: until the times are level, for a while, or for a number of requests."""

    detect: bool = False
    seconds: float = 0.0
    """Exactly so long, or the longest that detection may take."""
    requests: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class HttpLoad:
    """One client's share of a load, complete."""

    origin: Origin
    shape: Shape
    spool: Path
    """Folder for the bytes of answers."""
    seed: int = 0
    warmup: LoadWarmup = LoadWarmup()
    duration_s: float | None = None
    requests: int | None = None
    at_least_s: float = 0.5
    at_most_s: float = 10.0
    interval: float = 0.02
    timeout_s: float = 120.0
    max_in_flight: int = 4096
    errors: float | None = None
    """Stop when more than this share of the last hundred requests failed."""
    most_requests: int | None = None
    """Never send more, warm-up included: the budget."""
    deadline_ns: int | None = None
    """When all must be over."""
    start_ns: int | None = None
    """When to begin; immediately when left out."""
    client: int = 0
    clients: int = 1
    host: int = 0
    hosts: int = 1
    """Machines that share the load, each with as many clients."""
    first_session: int = 0
    """Number of the first session: a load after another continues where that one ended."""

    @property
    def place(self) -> int:
        """Number of this client among those of all machines: it takes every `places`-th request of the load."""
        return self.host * self.clients + self.client

    @property
    def places(self) -> int:
        return self.hosts * self.clients

    @property
    def share_of_requests(self) -> int | None:
        return None if self.requests is None else _share(self.requests, self.place, self.places)

    @property
    def share_of_budget(self) -> int | None:
        return None if self.most_requests is None else _share(self.most_requests, self.place, self.places)


@dataclass(frozen=True, slots=True)
class LoadCallbacks:
    """What the loop asks others, now and then and never while something arrives."""

    steady: Callable[[NDArray[np.int64]], bool] = lambda _: True
    enough: Callable[[NDArray[np.int64], float], bool] = lambda _durations, _width: False
    falls_behind: Callable[[Sequence[tuple[float, int, int, int]]], bool] | None = None
    """(seconds, in flight, due so far, done so far) over time → the service will not catch up."""
    progress: Callable[[float, str], None] = lambda _share, _note: None
    measuring: Callable[[], None] = lambda: None
    """Called when the warm-up is over."""


def _share(total: int, place: int, places: int) -> int:
    return total // places + (1 if place < total % places else 0)


class Driver:
    """What closed and open loops have in common; they differ in when a request is due."""

    def __init__(self, load: HttpLoad, supply: Supply, asks: LoadCallbacks) -> None:
        self.load, self.supply, self.asks = load, supply, asks
        self.origin = load.origin
        self.poller = make_poller()
        self.by_fd: dict[int, ClientConnection] = {}
        self.busy: set[ClientConnection] = set()
        self.now = 0
        self.begin_ns = 0  # of the load
        self.phase = WARMUP
        self.window = [0, 0]
        self.stopped = ""
        self.resent = 0
        self.sessions = 0
        self.place, self.places = load.place, load.places
        self.issued = self.answered = self.measured = self.good = 0
        self._columns = RequestColumns(load.spool / f"client-{load.client}.bodies")
        self._timeout_ns = int(load.timeout_s * 1e9)
        self._last = load.share_of_requests
        self._most = load.share_of_budget
        self._durations = array("q")
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self._first_pieces: deque[int] = deque(maxlen=_RECENT)  # ns from sending a request to its first piece
        self._is_streamed = False
        self._counts: deque[tuple[int, int]] = deque(maxlen=_NOTES)  # (time of a note, answered until then)
        self._story: list[tuple[float, int, int, int]] = []
        self._lags = array("q", bytes(8 * _LAG_BINS))
        self._cpu = [0.0, 0.0]
        self._waited: list[float | None] = [None, None]
        self._pieces = 0
        self._drain_ns = 0
        self.early_ns = 0  # how long before a request is due the loop wants to be awake
        self._next_check = 30
        self._tick_ns = 0

    # -- what a loop must say ----------------------------------------------------------------------------------------

    def next_due(self) -> int:
        """When the next request is due; far away when none is."""
        raise NotImplementedError

    def send_due(self) -> None:
        raise NotImplementedError

    def follow(self, connection: ClientConnection, outcome: int, next_turn: bytes | None) -> None:
        """A request has ended: the connection may be used again."""
        raise NotImplementedError

    def level(self, at_s: float) -> None:
        """Adapt to the level of the load at a moment."""

    def exhausted(self) -> bool:
        """Whether nothing more will ever be due."""
        return False

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> LoadRecording:
        try:
            with quiet_collector():
                self._begin()
                self._loop()
                for connection in list(self.busy):
                    connection.cut("unfinished")
            return self._recording()
        finally:
            for connection in list(self.by_fd.values()):
                connection.shut()
            self.poller.close()
            self._columns.close()

    def _begin(self) -> None:
        self.now = perf_counter_ns()
        self.begin_ns = self.load.start_ns or self.now
        while self.now < self.begin_ns:
            self.poller.wait(self.begin_ns)
            self.now = perf_counter_ns()
        self._tick_ns = self.begin_ns
        warmup = self.load.warmup
        if not (warmup.detect or warmup.seconds or warmup.requests):
            self._measure_from(self.begin_ns)
        self.level(0.0)

    def _loop(self) -> None:
        wait, by_fd, clock, lags = self.poller.wait, self.by_fd, perf_counter_ns, self._lags
        while True:
            due = self.next_due() - self.early_ns
            ready = wait(min(due, self._tick_ns))
            self.now = now = clock()
            for fd, events in ready:
                connection = by_fd.get(fd)
                if connection is not None:
                    connection.ready(events)
            if due <= clock():
                self.send_due()
            if now >= self._tick_ns and self._tick(now):
                return
            lag = (clock() - now) // _LAG_BIN_NS
            lags[lag if lag < _LAG_BINS else _LAG_BINS - 1] += 1

    def _tick(self, now: int) -> bool:
        """Look after deadlines and limits a few times a second; True when all is over."""
        self._tick_ns = now + TICK_NS
        for connection in [candidate for candidate in self.busy if self._is_overdue(candidate, now)]:
            connection.cut("timeout")
        if not self.stopped:
            self.level((now - self.begin_ns) / 1e9)
            if self.phase == WARMUP and self._is_warm(now):
                # Not from the last look at the network: what was sent since then was still warm-up.
                self._measure_from(perf_counter_ns())
            self._check_end(now)
        return bool(self.stopped) and (not self.busy or now >= self._drain_ns)

    def _is_overdue(self, connection: ClientConnection, now: int) -> bool:
        if now - connection.due > self._timeout_ns:
            return True
        return connection.state in UNCONNECTED and now - connection.sent > _CONNECT_NS

    # -- requests ----------------------------------------------------------------------------------------------------

    def open_session(self) -> tuple[int, bytes]:
        """The next session of this client and its first request."""
        session = self._next_session()
        return session, self.supply.first(session)

    def _next_session(self) -> int:
        session = self.load.first_session + self.sessions * self.places + self.place
        self.sessions += 1
        return session

    def issue(self, connection: ClientConnection, due: int, stage: int, session: int, turn: int, wire: bytes) -> None:
        connection.due, connection.stage, connection.session, connection.turn = due, stage, session, turn
        connection.phase = self.phase if due >= self.window[0] else WARMUP
        self.issued += 1
        self.measured += connection.phase
        self.busy.add(connection)
        connection.start(wire)
        if self._last is not None and self.measured >= self._last and not self.stopped:
            # The window ends with the last request that is due, not with the slow end of the last answers.
            self._stop(perf_counter_ns(), "finished")

    def skip(self, due: int, stage: int) -> None:
        """Count a request that was due and could not be sent."""
        session = self._next_session()
        self.issued += 1
        phase = self.phase if due >= self.window[0] else WARMUP
        self.measured += phase
        self._columns.add(
            session, 0, self.load.client, phase, _SKIPPED, stage, 0, False, b"", due, 0, 0, 0, 0, [], [], []
        )

    def ended(self, connection: ClientConnection, outcome: int) -> None:
        """Record the outcome of a request and let the loop continue."""
        times = connection.times
        now = self.now
        if connection.problem:
            connection.kept += b"problem: " + connection.problem.replace("\n", " ").encode("latin-1", "replace") + b"\n"
        self._columns.add(
            connection.session,
            connection.turn,
            self.load.client,
            connection.phase,
            outcome,
            connection.stage,
            connection.status,
            connection.fresh,
            connection.kept,
            connection.due,
            connection.sent,
            times[0] if times else 0,
            now,
            len(connection.wire),
            times,
            connection.marks,
            connection.parts,
        )
        self.busy.discard(connection)
        self.answered += 1
        next_turn = None
        if outcome == _OK:
            self.good += 1
            self._durations.append(now - connection.sent)
            self._first_pieces.append((times[0] if times else now) - connection.sent)
            self._is_streamed = len(times) > 1
            if self.supply.conversations:
                next_turn = self.supply.then(connection.session, connection.turn, b"".join(connection.parts))
        self._recent.append(outcome != _OK)
        if connection.phase == MEASURE:
            self._pieces += len(times)
        connection.clear()
        self.follow(connection, outcome, None if self.stopped else next_turn)

    @staticmethod
    def is_connection_problem(outcome: int) -> bool:
        """Whether the server could not be reached at all."""
        return outcome in _CONNECTION

    # -- phases and limits -------------------------------------------------------------------------------------------

    def _is_warm(self, now: int) -> bool:
        warmup = self.load.warmup
        elapsed_s = (now - self.begin_ns) / 1e9
        if warmup.requests:
            return self.answered >= warmup.requests
        if elapsed_s >= warmup.seconds:
            return True
        if warmup.detect and len(self._durations) >= self._next_check:
            self._next_check = int(len(self._durations) * 1.4) + 1
            return self.asks.steady(np.frombuffer(self._durations, dtype=np.int64).copy())
        return False

    def _measure_from(self, now: int) -> None:
        """Hand over from warm-up to measurement; what is in flight stays warm-up, nothing is drained."""
        self.phase = MEASURE
        self.window[0] = now
        self._cpu[0] = time.process_time()
        self._waited[0] = _waited_s()
        self._durations = array("q")
        self._next_check = 64
        np.frombuffer(self._lags, dtype=np.int64)[:] = 0
        self.asks.measuring()

    def _stop(self, now: int, why: str) -> None:
        self.stopped = why
        self.window[1] = now
        if self.phase == WARMUP:
            self.window[0] = now
        self._cpu[1] = time.process_time()
        self._waited[1] = _waited_s()
        drain_ns = now + self._timeout_ns
        self._drain_ns = drain_ns if self.load.deadline_ns is None else min(drain_ns, self.load.deadline_ns)

    def _check_end(self, now: int) -> None:
        why = self._reason_to_stop(now)
        if why:
            self._stop(now, why)
            return
        self._report_progress(now)

    def _reason_to_stop(self, now: int) -> str:
        load = self.load
        if load.deadline_ns is not None and now >= load.deadline_ns:
            return "deadline: the time of the run was over before the load was"
        if load.errors is not None and len(self._recent) == _RECENT and sum(self._recent) > load.errors * _RECENT:
            return f"errors: {sum(self._recent)} of the last {_RECENT} requests failed; {load.errors:.0%} is tolerated"
        if not self.good and self.answered >= _HOPELESS and now - self.begin_ns > _HOPELESS_NS:
            return f"errors: none of the first {self.answered} requests was answered"
        if self._most is not None and self.issued >= self._most:
            return "budget: more requests could have cost more than the budget"
        if self.phase == WARMUP:
            return "finished" if self.exhausted() else ""
        if self.asks.falls_behind is not None and self._falls_behind(now):
            return "saturated: the service fell behind for good"
        return "finished" if self._is_enough(now) else ""

    def _falls_behind(self, now: int) -> bool:
        at = (now - self.window[0]) / 1e9
        if self._story and at - self._story[-1][0] < 0.25:
            return False
        self._story.append((at, len(self.busy), self.issued, self.answered))
        return self.asks.falls_behind is not None and self.asks.falls_behind(self._story)

    def _is_enough(self, now: int) -> bool:
        load, elapsed_s = self.load, (now - self.window[0]) / 1e9
        if self._last is not None and self.measured >= self._last:
            return True
        if load.duration_s is not None and elapsed_s >= load.duration_s:
            return True
        if self.exhausted():
            return True
        if self._last is not None or load.duration_s is not None or self.is_finite():
            return False
        if elapsed_s >= load.at_most_s:
            return True
        if elapsed_s < load.at_least_s or len(self._durations) < self._next_check:
            return False
        self._next_check = int(len(self._durations) * 1.4) + 1
        return self.asks.enough(np.frombuffer(self._durations, dtype=np.int64).copy(), load.interval)

    def is_finite(self) -> bool:
        """Whether the shape of the load itself says when it is over."""
        return False

    def wants_more(self) -> bool:
        """Whether another request may be sent."""
        if self.stopped or (self._most is not None and self.issued >= self._most):
            return False
        return self._last is None or self.measured < self._last

    def _report_progress(self, now: int) -> None:
        if self._counts and now - self._counts[-1][0] < _NOTE_NS:
            return
        self._counts.append((now, self.answered))
        load, elapsed_s = self.load, (now - self.window[0]) / 1e9
        if self.phase == WARMUP:
            share = (now - self.begin_ns) / 1e9 / max(load.warmup.seconds, 1e-9)
        elif self._last:
            share = self.measured / self._last
        else:
            share = elapsed_s / (load.duration_s or load.at_most_s)
        self.asks.progress(share, self._progress_note())

    def _progress_note(self) -> str:
        (begin, before), (end, answered) = self._counts[0], self._counts[-1]
        words = [f"{answered:,} request{'' if answered == 1 else 's'}"]
        if end > begin:
            words.append(f"{(answered - before) / ((end - begin) / 1e9):.3g}/s")
        if self._first_pieces:
            words.append(f"{'ttft' if self._is_streamed else 'latency'} {median(self._first_pieces) / 1e6:.3g} ms")
        if answered > self.good:
            words.append(f"{answered - self.good:,} failed")
        words.append(f"{len(self.busy)} in flight")
        return ", ".join(words) + (f" (client 1 of {self.load.clients})" if self.load.clients > 1 else "")

    # -- the result --------------------------------------------------------------------------------------------------

    def _recording(self) -> LoadRecording:
        wall_s = max(1e-9, (self.window[1] - self.window[0]) / 1e9)
        cost = ClientCost(
            client=self.load.client,
            wall_s=wall_s,
            cpu_s=self._cpu[1] - self._cpu[0] if self.phase == MEASURE else 0.0,
            requests=self.measured,
            pieces=self._pieces,
            lag_p99_ms=_quantile(self._lags, 0.99),
            lag_max_ms=_quantile(self._lags, 1.0),
            waited_s=None if self._waited[0] is None or self._waited[1] is None else self._waited[1] - self._waited[0],
            resent=self.resent,
        )
        return self._columns.finish((self.window[0], self.window[1]), cost, self.stopped)


def _waited_s() -> float | None:
    """How long this thread was ready and not running so far, by the kernel's own account; None where it keeps none."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def _quantile(bins: array[int], share: float) -> float:
    counts = np.frombuffer(bins, dtype=np.int64)
    total = int(counts.sum())
    if not total:
        return 0.0
    reached = np.searchsorted(np.cumsum(counts), share * total)
    return float((min(int(reached), _LAG_BINS - 1) + 1) * _LAG_BIN_NS / 1e6)

"""When the next request is due: after the answer in a closed loop, by the clock in an open one."""

from __future__ import annotations

import heapq
from time import perf_counter_ns

import numpy as np

from assay.run.load.http.connection import ClientConnection
from assay.run.load.http.driver import Driver, HttpLoad, LoadCallbacks, Supply
from assay.run.load.http.recording import LoadRecording
from assay.run.load.shape import ClosedShape, OpenShape, level_at

_NEVER = 2**62
_Turn = tuple[int, int, bytes]  # session, number and request of a conversation's next turn
# No two pairs of a seed and a machine draw the same arrivals.
_MOST_HOSTS = 64
# A core that sleeps wakes up some tens of microseconds late. Where requests are further apart than this gap, the loop
# is awake a little before each of them and waits for the moment with open eyes.
_AWAKE_NS, _WIDE_GAP_NS = 120_000, 2_000_000
# A user that cannot reach the server tries again after this long, as a person would.
_PAUSE_NS = 100_000_000


def drive(load: HttpLoad, supply: Supply, asks: LoadCallbacks | None = None) -> LoadRecording:
    """Drive one client's share of a load to its end."""
    if isinstance(load.shape, ClosedShape):
        return ClosedLoop(load, supply, asks or LoadCallbacks(), load.shape).run()
    return OpenLoop(load, supply, asks or LoadCallbacks(), load.shape).run()


class ClosedLoop(Driver):
    """Users that ask again when they have their answer, each on a connection of its own."""

    def __init__(self, load: HttpLoad, supply: Supply, asks: LoadCallbacks, shape: ClosedShape) -> None:
        super().__init__(load, supply, asks)
        self._shape = shape
        self._waiting: list[tuple[int, int, ClientConnection, _Turn | None]] = []
        self._order = 0
        self._users: list[ClientConnection] = []
        self._leaving = 0
        self._chance = np.random.default_rng([load.seed, load.place, 0x7417])

    def level(self, at_s: float) -> None:
        """Bring in the users that are missing, and let those leave that are too many."""
        whole = level_at(self._shape.levels, at_s)
        wanted = int(whole + 0.5) // self.places + (1 if self.place < int(whole + 0.5) % self.places else 0)
        active = len(self._users) - self._leaving
        self._leaving = max(0, self._leaving - max(0, wanted - active))
        for _ in range(wanted - (len(self._users) - self._leaving)):
            user = ClientConnection(self)
            self._users.append(user)
            self._wait(user, perf_counter_ns(), None)
        self._leaving = max(self._leaving, len(self._users) - wanted)

    def is_finite(self) -> bool:
        return bool(np.isfinite(sum(level.duration_s for level in self._shape.levels)))

    def exhausted(self) -> bool:
        whole_s = sum(level.duration_s for level in self._shape.levels)
        return (self.now - self.begin_ns) / 1e9 >= whole_s

    def next_due(self) -> int:
        return self._waiting[0][0] if self._waiting else _NEVER

    def send_due(self) -> None:
        while self._waiting and self._waiting[0][0] <= perf_counter_ns():
            due, _, user, turn = heapq.heappop(self._waiting)
            if turn is not None and self.wants_more():
                self.issue(user, due, self._stage(due), *turn)
            elif turn is None and self._stays(user):
                session, wire = self.open_session()
                self.issue(user, due, self._stage(due), session, 0, wire)

    def follow(self, connection: ClientConnection, outcome: int, next_turn: bytes | None) -> None:
        """Let the user ask again: immediately, after a think time, or after a pause when no server answered."""
        if self.stopped:
            return
        turn = None if next_turn is None else (connection.session, connection.turn + 1, next_turn)
        if self.is_connection_problem(outcome):
            self._wait(connection, self.now + _PAUSE_NS, None)
        elif self._shape.think_s:
            pause_ns = int(self._chance.exponential(self._shape.think_s) * 1e9)
            self._wait(connection, self.now + pause_ns, turn)
        elif turn is not None and self.wants_more():
            self.issue(connection, self.now, self._stage(self.now), *turn)
        elif self._stays(connection):
            session, wire = self.open_session()
            self.issue(connection, self.now, self._stage(self.now), session, 0, wire)

    def _wait(self, user: ClientConnection, due: int, turn: _Turn | None) -> None:
        self._order += 1
        heapq.heappush(self._waiting, (due, self._order, user, turn))

    def _stays(self, user: ClientConnection) -> bool:
        """Whether a user continues; a surplus user leaves instead."""
        if not self.wants_more():
            return False
        if self._leaving > 0:
            self._leaving -= 1
            self._users.remove(user)
            user.shut()
            return False
        return True

    def _stage(self, at_ns: int) -> int:
        at_s, index = (at_ns - self.begin_ns) / 1e9, 0
        for index, level in enumerate(self._shape.levels):  # noqa: B007
            if at_s < level.duration_s:
                break
            at_s -= level.duration_s
        return index


class OpenLoop(Driver):
    """Requests fall due by the clock, on whatever connection is free."""

    def __init__(self, load: HttpLoad, supply: Supply, asks: LoadCallbacks, shape: OpenShape) -> None:
        super().__init__(load, supply, asks)
        # Clients of one machine begin together and are dealt one schedule. Machines begin some time apart: shares of
        # one schedule would add up to more even arrivals than asked, so each machine draws its own.
        own = load.hosts > 1 and shape.is_drawn
        self._shape = shape.part_of(load.hosts) if own else shape
        self._blocks = self._shape.due(load.seed * _MOST_HOSTS + load.host if own else load.seed)
        self._turn, self._turns = (load.client, load.clients) if own else (load.place, load.places)
        self._due: list[int] = []
        self._stages: list[int] = []
        self._at = 0
        self._seen = 0
        self._idle: list[ClientConnection] = []
        self._finite_s = sum(level.duration_s for level in shape.levels) if shape.levels else np.inf
        self._over = False

    def _refill(self) -> None:
        """Take the next block of due times, of which every client keeps its own share."""
        self._due, self._stages, self._at = [], [], 0
        while not self._due and not self._over:
            block = next(self._blocks, None)
            if block is None:
                self._over = True
                return
            begin = (self._turn - self._seen) % self._turns
            self._seen += len(block.at_ns)
            own = slice(begin, None, self._turns)
            self._due = (block.at_ns[own] + self.begin_ns).tolist()
            gaps = max(1, len(self._due) - 1)
            wide = bool(self._due) and (self._due[-1] - self._due[0]) / gaps > _WIDE_GAP_NS
            self.early_ns = _AWAKE_NS if wide else 0
            self._stages = block.stage[own].tolist()

    def is_finite(self) -> bool:
        return self._shape.times is not None or bool(np.isfinite(self._finite_s))

    def exhausted(self) -> bool:
        if self._shape.times is not None:
            return self._over
        return (self.now - self.begin_ns) / 1e9 >= self._finite_s

    def next_due(self) -> int:
        if self._at >= len(self._due):
            if self._over:
                return _NEVER
            self._refill()
            return self.next_due()
        return self._due[self._at] if not self.stopped else _NEVER

    def send_due(self) -> None:
        """Send what is due, or count it as skipped where too many are open."""
        first, now = self.next_due(), perf_counter_ns()
        while now < first <= now + self.early_ns:
            now = perf_counter_ns()
        while not self.stopped and self.next_due() <= now:
            due, stage = self._due[self._at], self._stages[self._at]
            self._at += 1
            if not self.wants_more():
                return
            if self._idle:
                connection = self._idle.pop()
            elif len(self.busy) < self.load.max_in_flight:
                connection = ClientConnection(self)
            else:
                self.skip(due, stage)
                continue
            session, wire = self.open_session()
            self.issue(connection, due, stage, session, 0, wire)

    def follow(self, connection: ClientConnection, outcome: int, next_turn: bytes | None) -> None:  # noqa: ARG002
        """Continue a conversation, or keep the connection for another request."""
        if next_turn is not None and self.wants_more():
            self.issue(connection, self.now, connection.stage, connection.session, connection.turn + 1, next_turn)
        elif connection.state == "idle":
            self._idle.append(connection)

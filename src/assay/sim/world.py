"""The requests as a whole (numbers, slots, shared tokens, stops, record), and one answer written at its moments."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from time import perf_counter_ns
from typing import Literal

from assay.sim.faults import choose
from assay.sim.records import Counters, Records
from assay.sim.script import SimScript
from assay.sim.wire.connection import ServerConnection
from assay.sim.wire.loop import Loop

# Stands for the number of the request in bytes that are made once and used for all requests.
NUMBER_MARK = b"@" * 12
_REST_NS = 1_000_000  # an endless answer without any pause would be all that the server does

# keep: as the request asks. again: from the second piece on, without end. hold: nothing more, for ever.
Ending = Literal["keep", "close", "reset", "hold", "again"]
OK, FAULT, REFUSED, ABORTED = range(4)  # positions in records.OUTCOMES


@dataclass(frozen=True, slots=True)
class ReplySchedule:
    """What will be written, and when."""

    pieces: Sequence[bytes]
    carried: Sequence[int]
    """Tokens in each piece; pieces without tokens are not recorded."""
    offsets_ns: Sequence[int]
    """When each piece is due, from the start of the work on the request."""
    tail: Callable[[SimulatedReply], bytes] | None = None
    """What follows the last piece in the same write; made then, as it may tell how long all took."""
    ending: Ending = "keep"
    status: int = 200
    outcome: int = OK
    reason: str = "stop"
    prompt_tokens: int = 0


class SimulatedReply:
    """A course on its way to a client."""

    __slots__ = (
        "_base_ns", "_dues", "_over", "_reserved", "_times", "_tokens", "_world", "arrival_ns", "connection", "course",
        "first_ns", "generation", "last_ns", "next", "number", "start_ns", "written",
    )  # fmt: skip

    def __init__(
        self, world: World, connection: ServerConnection, number: int, arrival_ns: int, course: ReplySchedule
    ) -> None:
        self._world, self.connection, self.course = world, connection, course
        self.number, self.arrival_ns = number, arrival_ns
        self.start_ns = self.first_ns = self.last_ns = 0
        self.next = self.written = self._base_ns = 0
        self.generation = world.generation
        self._times, self._dues, self._tokens = array("q"), array("q"), array("q")
        self._over = self._reserved = False

    @property
    def is_over(self) -> bool:
        return self._over

    def start(self, start_ns: int) -> None:
        """Begin the work at a moment of `perf_counter_ns`."""
        self.start_ns = start_ns
        self._base_ns = start_ns - self._world.loop.stopped_ns
        offsets = self.course.offsets_ns
        if offsets and offsets[0] <= 0:
            self._step()
        else:
            self._go_on()

    def abort(self) -> None:
        self._end(ABORTED)

    def _go_on(self) -> None:
        offsets = self.course.offsets_ns
        if self.next >= len(offsets):
            if self.course.ending != "again":
                self._finish()
                return
            self._base_ns += max(offsets[-1] - offsets[0], _REST_NS)
            self.next = 1
        # Through the loop even if it is due: steps that call each other would pile up.
        self._world.loop.at(self._base_ns + offsets[self.next], self._step)

    def _step(self) -> None:
        if self._over:
            return
        course, now = self.course, self._world.loop.now()
        offsets, base, begin = course.offsets_ns, self._base_ns, self.next
        end = begin + 1
        if self._world.shares_rate:
            tokens = course.carried[begin]
            if tokens and self._waits_its_turn(tokens, now):
                return
        else:
            while end < len(offsets) and base + offsets[end] <= now:
                end += 1
        self.next = end
        if self._world.script.flush == "each":
            for at in range(begin, end):
                self._write(at, at + 1)
        else:
            self._write(begin, end)
        if not self._over:
            self._go_on()

    def _waits_its_turn(self, tokens: int, now: int) -> bool:
        """Take a place in the line for the tokens that all answers share; the rest of the plan moves with it."""
        if self._reserved:
            self._reserved = False
            return False
        due = self._base_ns + self.course.offsets_ns[self.next]
        moment = self._world.reserve(tokens, due)
        self._base_ns += moment - due
        if moment <= now:
            return False
        self._reserved = True
        self._world.loop.at(moment, self._step)
        return True

    def _write(self, begin: int, end: int) -> None:
        course, world = self.course, self._world
        pieces = course.pieces
        data = pieces[begin] if end == begin + 1 else b"".join(pieces[begin:end])
        tokens = sum(course.carried[begin:end])
        if tokens:
            self.last_ns = perf_counter_ns()
            is_first = not self.first_ns
            self.first_ns = self.first_ns or self.last_ns
            self.written += tokens
            world.counters.generated += tokens
        if course.tail is not None and end == len(pieces):
            data += course.tail(self)
        data = data.replace(NUMBER_MARK, b"%012d" % self.number)
        if tokens:  # once more: what the tail tells is a little older than the record
            self.last_ns = now_ns = perf_counter_ns()
            if is_first:
                self.first_ns = now_ns
            if world.script.record:
                self._note(begin, end, now_ns)
        if not self.connection.send(data):
            world.counters.backed_up += 1

    def _note(self, begin: int, end: int, now_ns: int) -> None:
        shift = self._base_ns + self._world.loop.stopped_ns
        for tokens, offset in zip(self.course.carried[begin:end], self.course.offsets_ns[begin:end], strict=True):
            if tokens:
                self._times.append(now_ns)
                self._dues.append(shift + offset)
                self._tokens.append(tokens)

    def _finish(self) -> None:
        ending = self.course.ending
        if ending == "hold":
            return  # the slot stays taken until the client gives up
        self._end(self.course.outcome)
        if ending == "reset":
            self.connection.reset()
        else:
            self.connection.finished(close=ending == "close")

    def _end(self, outcome: int) -> None:
        if self._over:
            return
        self._over = True
        end_ns = perf_counter_ns()
        course, world = self.course, self._world
        world.count(outcome, course.reason, self.arrival_ns, self.first_ns, end_ns)
        if world.script.record and self.generation == world.generation:
            times = (self.arrival_ns, self.start_ns, self.first_ns, self.last_ns, end_ns)
            answered = (course.status, self.written, course.prompt_tokens, outcome)
            row = (self.number, *times, *answered, self.connection.number)
            world.records.add(row, self._times, self._dues, self._tokens)
        world.release(self)


class World:
    """Everything that answers have in common."""

    def __init__(self, script: SimScript, loop: Loop) -> None:
        self.script, self.loop = script, loop
        self.counters = Counters()
        self.shares_rate = script.rate_limit is not None
        self.ready_ns = perf_counter_ns() + round(script.ready_after * 1e9)
        self.running: set[SimulatedReply] = set()
        self.waiting: deque[SimulatedReply] = deque()
        self.generation = -1
        self._admitting = False
        self.restart()

    def restart(self) -> None:
        """Forget the record and restart the script: with request 0, and its clock at the next request."""
        self.generation += 1
        self.records = Records()
        self.stops: list[tuple[int, int]] = []
        self._number = 0
        self._began_ns = 0
        self._free_ns = 0

    @property
    def is_ready(self) -> bool:
        return perf_counter_ns() >= self.ready_ns

    def take_number(self) -> int:
        """The number of a new request; the first one begins the script."""
        number = self._number
        self._number = number + 1
        if number == 0:
            self._begin()
        return number

    def _begin(self) -> None:
        self._began_ns = self.loop.now()
        generation = self.generation
        for stop in self.script.stall:
            moment = self._began_ns + round(stop.at_s * 1e9)
            self.loop.at(moment, lambda for_s=stop.for_s: self._stop_if(generation, for_s))  # type: ignore[misc]

    def _stop_if(self, generation: int, for_s: float) -> None:
        if generation == self.generation:
            self.stop(for_s)

    def stop(self, for_s: float) -> None:
        self.stops.append(self.loop.stop_the_world(for_s))

    def fault(self, number: int) -> str | None:
        """What goes wrong with a request on purpose."""
        return choose(self.script.error, number, self.script.seed) if self.script.error else None

    def chance(self, number: int) -> Random:
        """Where a request draws from: it depends on the seed and the request's number alone."""
        return Random(self.script.seed * 1_000_003 + number)  # noqa: S311  (no secret)

    def factor(self, number: int) -> float:
        """How many times as long a request takes in a slow start."""
        slow = self.script.slow_start
        if slow is None:
            return 1.0
        first = number < slow.requests or self.loop.now() - self._began_ns < slow.for_s * 1e9
        return slow.factor if first else 1.0

    def refuse(self, answer: SimulatedReply) -> None:
        """Start an answer that says no: it needs no slot."""
        answer.connection.answering = answer
        answer.start(answer.arrival_ns)

    def admit(self, answer: SimulatedReply) -> None:
        """Start an answer, or let it wait in line for a slot."""
        answer.connection.answering = answer
        if self.script.capacity is not None and len(self.running) >= self.script.capacity:
            self.waiting.append(answer)
        else:
            self.running.add(answer)
            answer.start(answer.arrival_ns)

    def release(self, answer: SimulatedReply) -> None:
        """An answer has ended; its slot goes to the next in line."""
        self.running.discard(answer)
        if self._admitting:
            return  # an answer admitted below has ended immediately; the loop below continues
        self._admitting = True
        while self.waiting and len(self.running) < (self.script.capacity or 0):
            following = self.waiting.popleft()
            if not following.is_over:
                self.running.add(following)
                following.start(perf_counter_ns())
        self._admitting = False

    def reserve(self, tokens: int, due_ns: int) -> int:
        """When tokens that are due can be written, given that all answers share a number per second."""
        rate = self.script.rate_limit or 1.0
        moment = max(self._free_ns, due_ns)
        self._free_ns = moment + round(tokens * 1e9 / rate)
        return moment

    def answer_now(
        self,
        connection: ServerConnection,
        number: int,
        arrival_ns: int,
        data: bytes,
        carried: Sequence[int],
        prompt_tokens: int,
        reason: str,
    ) -> None:
        """Write a whole answer in one go: the short way for answers that have no moments to wait for."""
        tokens = sum(carried)
        now_ns = perf_counter_ns()
        if not connection.send(data.replace(NUMBER_MARK, b"%012d" % number)):
            self.counters.backed_up += 1
        self.counters.generated += tokens
        self.count(OK, reason, arrival_ns, now_ns, now_ns)
        if self.script.record:
            times = (arrival_ns, arrival_ns, now_ns, now_ns, now_ns)
            row = (number, *times, 200, tokens, prompt_tokens, OK, connection.number)
            self.records.add(row, [now_ns] * len(carried), [arrival_ns] * len(carried), carried)
        connection.finished()

    def count(self, outcome: int, reason: str, arrival_ns: int, first_ns: int, end_ns: int) -> None:
        """Add an answer that has ended to the sums."""
        counters = self.counters
        if outcome == OK:
            counters.ended[reason] += 1
        else:
            counters.failed[outcome] += 1
        if first_ns:
            counters.waited.add(first_ns - arrival_ns)
        counters.took.add(end_ns - arrival_ns)

"""One answer: pieces of bytes, each written at its moment, and a note of when it really was."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Literal

from assay.sim.wire.connection import ServerConnection

if TYPE_CHECKING:
    from assay.sim.world import World

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
        """Whether nothing more will be written."""
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
        """The client has gone."""
        self._end(ABORTED)

    def _go_on(self) -> None:
        """Wait for the next piece, or end."""
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
            row = (
                self.number,
                self.arrival_ns,
                self.start_ns,
                self.first_ns,
                self.last_ns,
                end_ns,
                course.status,
                self.written,
                course.prompt_tokens,
                outcome,
                self.connection.number,
            )
            world.records.add(row, self._times, self._dues, self._tokens)
        world.release(self)

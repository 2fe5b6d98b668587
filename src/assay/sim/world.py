"""The requests as a whole: their numbers, the slots and the tokens they share, the stops, and the record."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from time import perf_counter_ns

from assay.sim.counters import Counters
from assay.sim.faults import choose
from assay.sim.records import Records
from assay.sim.reply import ABORTED, FAULT, NUMBER_MARK, OK, REFUSED, SimulatedReply
from assay.sim.script import SimScript
from assay.sim.wire.connection import ServerConnection
from assay.sim.wire.loop import Loop


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
        """Whether the time of the start is over."""
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
        """Stop everything for a while, now."""
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
            return  # one that was admitted below has ended at once; the loop below goes on
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
            row = (
                number,
                arrival_ns,
                arrival_ns,
                now_ns,
                now_ns,
                now_ns,
                200,
                tokens,
                prompt_tokens,
                OK,
                connection.number,
            )
            times = [now_ns] * len(carried)
            self.records.add(row, times, [arrival_ns] * len(carried), carried)
        connection.finished()

    def count(self, outcome: int, reason: str, arrival_ns: int, first_ns: int, end_ns: int) -> None:
        """Add an answer that has ended to the sums."""
        counters = self.counters
        if outcome == OK:
            counters.ended[reason] += 1
        elif outcome == FAULT:
            counters.faults += 1
        elif outcome == REFUSED:
            counters.refused += 1
        elif outcome == ABORTED:
            counters.aborted += 1
        if first_ns:
            counters.waited.add(first_ns - arrival_ns)
        counters.took.add(end_ns - arrival_ns)

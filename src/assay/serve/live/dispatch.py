"""Agents that wait for a job: they wait in memory, and are woken when there is one for them.

While no agent waits the database is not asked. While agents wait, one short question a second asks which sets of needs
have jobs that are due; as many waiting agents as there are such jobs are woken, those that wait longest first. Only
then each of them takes a job in a transaction of its own. Jobs come from the database alone, or from Redis in front of
it; the database is the truth in both cases: what Redis hands out counts only when it was claimed there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import Heartbeat, HeartbeatAnswer
from assay.place.leasing import Lease
from assay.serve.live.feed import LoopEvent
from assay.serve.observability import log_event, log_failure
from assay.store.control import Control
from assay.store.database import WriteAheadLog
from assay.store.fleet.transactions import unknown_agent

if TYPE_CHECKING:
    from assay.place.redis_broker import RedisBroker

# A job that Redis handed out and no agent claimed is handed out again after this long.
_UNCLAIMED_S = 30.0
_AT_ONCE = 10_000
# How many jobs of Redis that turn out to be gone are passed over before the agent is asked to wait again.
_GONE_AT_MOST = 8
T = TypeVar("T")
POLL_S = 1.0
# Many concurrent wishes to ask become one question.
POLL_AT_MOST_EVERY_S = 0.03
# An agent that found nothing although something was due (another was faster, or it is drained) lets others try first.
AFTER_NOTHING_S = 1.0
# What an agent can do changes when it enrols or is relabelled: reported here, found by this elsewhere.
TRUST_SUITABLE_S = 30.0
_SUITABLE_AT_ONCE = 100
# Fewer than the database has connections: taking jobs never holds up heartbeats.
_TAKING_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Jobs straight from the database, or in the order of Redis: then each is claimed in the database first."""

    control: Control
    broker: RedisBroker | None = None
    """Redis; without it nothing has to be offered or withdrawn: what is pending in the database is on offer."""

    def ready(self) -> Mapping[str, int]:
        """Jobs that could be taken now, by the key of their needs."""
        return self.broker.sizes() if self.broker else self.control.ready()

    def suitable(self, agent: str, device: str) -> Collection[str]:
        """The keys of the needs that an agent meets."""
        return self.control.suitable(agent, device)

    def take(self, agent: str, device: str) -> Lease | None:
        """Give the agent its next job: from Redis, if the database agrees."""
        if self.broker is None:
            return self.control.take(agent, device)
        queues = self.control.suitable(agent, device)
        for _ in range(_GONE_AT_MOST):
            taken = self.broker.take(agent, queues)
            if not taken:
                return None
            try:
                lease = self.control.claim(agent, taken[0].job, taken[0].fence)
            except Exception:
                self.broker.put_back(taken[0])
                raise
            # Claimed or gone, Redis may forget it: what is still to be done is offered again from the database.
            self.withdraw([taken[0].job])
            if lease is not None:
                return lease
            log_event("offer was stale", level=logging.DEBUG, job=taken[0].job, agent=agent)
        return None

    def offer(self) -> int:
        """Offer all jobs that are due; Redis keeps those that it knows."""
        return self.broker.offer(self.control.offers(_AT_ONCE)) if self.broker else 0

    def withdraw(self, jobs: Iterable[str]) -> None:
        """Take jobs off that are claimed or no longer to be done; without Redis they are refused when claimed."""
        if self.broker is None:
            return
        try:
            self.broker.withdraw(jobs)
        except StoreError as problem:
            log_event("redis away", level=logging.DEBUG, because=problem.problem.message)

    def reconcile(self) -> int:
        """Offer what Redis does not know, and hand out again what no agent claimed; return how many were offered."""
        if self.broker is None:
            return 0
        fresh = self.broker.is_fresh()
        self.broker.reclaim(_UNCLAIMED_S)
        offered = self.offer()
        if fresh:
            self.broker.mark()
            log_event("offered all jobs to redis", jobs=offered, because="it was emptied or restarted")
        return offered


@dataclass(slots=True, eq=False)
class Poll:
    """One agent that waits."""

    agent: str
    device: str
    woken: asyncio.Future[str | None]
    not_before: float = 0.0
    left: bool = False

    def leave(self) -> None:
        self.left = True
        if not self.woken.done():
            self.woken.set_result(None)


@dataclass(slots=True)
class _Suits:
    """What an agent can do, of the needs that were known when it was asked."""

    keys: frozenset[str]
    known: frozenset[str]
    until: float


@dataclass(slots=True)
class Dispatcher:
    """Matches waiting agents with jobs that are due."""

    queue: Callable[[], JobQueue]
    """That of the open store; each of its calls is one short piece of work for a thread."""
    is_away: Callable[[BaseException], bool]
    """Whether an error only means that the database is away for a while."""
    on_change: Callable[[int], None]
    """Called with how many agents wait."""
    _waiting: dict[Poll, None] = field(default_factory=dict)
    _due: Counter[str] = field(default_factory=Counter)
    _taking: Counter[str] = field(default_factory=Counter)
    _suits: dict[tuple[str, str], _Suits] = field(default_factory=dict)
    _wake: LoopEvent = field(default_factory=LoopEvent)
    _limiter: anyio.CapacityLimiter | None = None
    _polled_s: float = 0.0
    """When it was last asked what is due; 0 when that is known to be out of date."""
    _closing: bool = False
    _away: bool = False

    async def run(self) -> None:
        self._wake.bind()
        while not self._closing:
            if await self._wake.wait(POLL_S):
                self._polled_s = 0.0
            if self._waiting and not self._closing:
                await self._poll()
                await asyncio.sleep(POLL_AT_MOST_EVERY_S)

    def nudge(self) -> None:
        """Say that there may be something new to do; from any thread."""
        self._wake.set()

    def forget(self, agent: str) -> None:
        """Ask again what an agent can do: it enrolled again or was changed; from any thread."""

        def forget() -> None:
            for who in [who for who in self._suits if who[0] == agent]:
                del self._suits[who]
            self._wake.set()

        self._wake.call(forget)

    def close(self) -> None:
        """Answer everybody who waits with nothing, and give out no more."""
        self._closing = True
        self._wake.set()
        for poll in tuple(self._waiting):
            poll.leave()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def poll(self, agent: str, device: str) -> Poll:
        return Poll(agent, device, asyncio.get_running_loop().create_future())

    async def meet(self, poll: Poll) -> None:
        """Learn what an agent can do, unless it is known.

        Raises:
            UsageError: `unknown-agent` if it is not enrolled.
        """
        who = (poll.agent, poll.device)
        if who not in self._suits:
            due = frozenset(self._due)
            keys = await self._in_thread(self.queue().suitable, *who)
            self._suits[who] = _Suits(frozenset(keys), due, time.monotonic() + TRUST_SUITABLE_S)

    async def lease(self, poll: Poll, wait_s: float) -> Lease | None:
        """The next job for a waiting agent, or None when the time is over or the agent has left."""
        if wait_s <= 0:
            return None if self._closing else await self._in_thread(self.queue().take, poll.agent, poll.device)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while not self._closing and not poll.left and loop.time() < deadline:
            key = await self._woken(poll, deadline - loop.time())
            if key is None or self._closing or poll.left:
                break
            try:
                lease = await self._in_thread(self.queue().take, poll.agent, poll.device)
            finally:
                self._taking[key] -= 1
            if lease is not None:
                return lease
            poll.not_before, poll.woken = loop.time() + AFTER_NOTHING_S, loop.create_future()
        return None

    async def _woken(self, poll: Poll, wait_s: float) -> str | None:
        """Wait until there is something for this agent; the key of its needs, or None."""
        self._waiting[poll] = None
        self.on_change(self.waiting)
        self._match((poll,))
        if not poll.woken.done() and time.monotonic() - self._polled_s > POLL_S:
            self._wake.set()
        try:
            await asyncio.wait((poll.woken,), timeout=wait_s)
        finally:
            self._waiting.pop(poll, None)
            self.on_change(self.waiting)
        return poll.woken.result() if poll.woken.done() else None

    async def _poll(self) -> None:
        """Look what is due, and wake as many agents as can take it."""
        self._polled_s = time.monotonic()
        try:
            ready = await self._in_thread(self.queue().ready)
            # What is being taken at this moment still counts as ready there.
            self._due = Counter({key: count - self._taking[key] for key, count in ready.items()})
            self._match(tuple(self._waiting))
            while (unknown := self._unknown()) and not self._closing:
                await self._in_thread(self._learn, unknown, frozenset(self._due))
                self._match(tuple(self._waiting))
            self._away = False
        except Exception as problem:  # whatever it is, the next round tries again
            if not self._away and self.is_away(problem):
                log_event("dispatch paused", level=logging.WARNING, because="the database or the queue is away")
            elif not self._away:
                log_failure("dispatch failed", problem)
            self._away, self._due = True, Counter()

    def _match(self, polls: Collection[Poll]) -> None:
        now = asyncio.get_running_loop().time()
        for poll in polls:
            if not self._due:
                return
            suits = self._suits.get((poll.agent, poll.device))
            if suits is None or poll.not_before > now or poll.woken.done():
                continue
            key = next((key for key, count in self._due.items() if count > 0 and key in suits.keys), None)
            if key is not None:
                self._due[key] -= 1
                self._taking[key] += 1
                self._waiting.pop(poll, None)
                poll.woken.set_result(key)

    def _unknown(self) -> tuple[tuple[str, str], ...]:
        """Agents of which it is not known whether they could take what is due."""
        due = {key for key, count in self._due.items() if count > 0}
        now = time.monotonic()

        def is_known(who: tuple[str, str]) -> bool:
            suits = self._suits.get(who)
            return suits is not None and suits.until > now and due <= suits.known

        asked = dict.fromkeys((poll.agent, poll.device) for poll in self._waiting) if due else {}
        return tuple(islice((who for who in asked if not is_known(who)), _SUITABLE_AT_ONCE))

    def _learn(self, agents: Collection[tuple[str, str]], known: frozenset[str]) -> None:
        """Ask what agents can do; runs in a thread."""
        until = time.monotonic() + TRUST_SUITABLE_S
        for agent, device in agents:
            try:
                keys = frozenset(self.queue().suitable(agent, device))
            except UsageError:  # removed while it waits: it gets nothing more
                keys = frozenset()
            self._suits[agent, device] = _Suits(keys, known, until)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_TAKING_AT_ONCE)
        return await anyio.to_thread.run_sync(work, *arguments, limiter=self._limiter)


_BEATS_AT_ONCE = 200

Answer = HeartbeatAnswer | Exception


@dataclass(slots=True)
class _Waiting:
    agent: str
    beat: Heartbeat
    answer: asyncio.Future[HeartbeatAnswer]

    def settle(self, answer: Answer) -> None:
        if self.answer.done():  # the agent went away meanwhile
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


@dataclass(slots=True)
class BeatCollector:
    """Takes heartbeats one by one and notes them in as few transactions as it can."""

    control: Callable[[], Control]
    _waiting: list[_Waiting] = field(default_factory=list)
    _noting: asyncio.Task[None] | None = None
    _limiter: anyio.CapacityLimiter | None = None

    async def beat(self, agent: str, beat: Heartbeat) -> HeartbeatAnswer:
        """Note a heartbeat.

        Raises:
            UsageError: `unknown-agent` if the agent is not enrolled.
        """
        waiting = _Waiting(agent, beat, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._noting is None or self._noting.done():
            self._noting = asyncio.create_task(self._note())
        return await waiting.answer

    async def _note(self) -> None:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        while self._waiting:
            some, self._waiting = self._waiting[:_BEATS_AT_ONCE], self._waiting[_BEATS_AT_ONCE:]
            try:
                answers = await anyio.to_thread.run_sync(self._noted, some, limiter=self._limiter)
            except Exception as problem:  # each of them gets the error, and asks again
                answers = [problem] * len(some)
            for call, answer in zip(some, answers, strict=True):
                call.settle(answer)

    def _noted(self, some: list[_Waiting]) -> list[Answer]:
        """The answers to some heartbeats; runs in a thread."""
        if len(some) == 1:
            return [self._alone(some[0])]
        try:
            answers = self.control().heartbeats([(call.agent, call.beat) for call in some])
        except UsageError:  # one of them holds a value that cannot be kept; the others shall not suffer
            return [self._alone(call) for call in some]
        return [answer or unknown_agent(call.agent) for call, answer in zip(some, answers, strict=True)]

    def _alone(self, waiting: _Waiting) -> Answer:
        try:
            return self.control().heartbeat(waiting.agent, waiting.beat)
        except UsageError as problem:
            return problem


@dataclass(slots=True)
class GroupSync:
    """One sync at a time; requests that come meanwhile share the next."""

    log: WriteAheadLog
    _syncing: asyncio.Task[None] | None = None
    _limiter: anyio.CapacityLimiter | None = None

    async def wait(self) -> None:
        """Return when everything that was committed before this call is on disk.

        Raises:
            StoreError: `disk` if the disk did not take it.
        """
        until = self.log.committed
        while not self.log.has(until):
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.create_task(self._sync())
            await asyncio.shield(self._syncing)

    async def _sync(self) -> None:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        await anyio.to_thread.run_sync(self.log.sync, limiter=self._limiter)

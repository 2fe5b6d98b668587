"""Requests that come at the same time share one transaction for heartbeats, and one sync of the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from assay.errors import UsageError
from assay.place.fleet.protocol import Heartbeat, HeartbeatAnswer
from assay.store.control import Control
from assay.store.database import WriteAheadLog
from assay.store.fleet.transactions import unknown_agent

_AT_ONCE = 200

Answer = HeartbeatAnswer | Exception


@dataclass(slots=True)
class _Waiting:
    agent: str
    beat: Heartbeat
    answer: asyncio.Future[HeartbeatAnswer]

    def settle(self, found: Answer) -> None:
        if self.answer.done():  # the agent went away meanwhile
            return
        if isinstance(found, Exception):
            self.answer.set_exception(found)
        else:
            self.answer.set_result(found)


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
            some, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            try:
                found = await anyio.to_thread.run_sync(self._noted, some, limiter=self._limiter)
            except Exception as problem:  # each of them is told, and asks again
                found = [problem] * len(some)
            for one, answer in zip(some, found, strict=True):
                one.settle(answer)

    def _noted(self, some: list[_Waiting]) -> list[Answer]:
        """The answers to some heartbeats; runs in a thread."""
        if len(some) == 1:
            return [self._alone(some[0])]
        try:
            found = self.control().heartbeats([(one.agent, one.beat) for one in some])
        except UsageError:  # one of them holds a value that cannot be kept; the others shall not suffer
            return [self._alone(one) for one in some]
        return [answer or unknown_agent(one.agent) for one, answer in zip(some, found, strict=True)]

    def _alone(self, one: _Waiting) -> Answer:
        try:
            return self.control().heartbeat(one.agent, one.beat)
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

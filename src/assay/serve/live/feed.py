"""Live updates: one reader of the events table for all listeners of this process; progress goes straight to them.

A listener that comes back with the id of the last event it saw gets everything since. Progress is not kept: it has no
id and is not repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import anyio.to_thread

from assay.documents import to_json
from assay.serve.observability import log_event
from assay.store.control import Control
from assay.store.records import EventRecord

POLL_S = 0.5
STILL_HERE_S = 15.0
_PAGE = 500
_QUEUE = 10_000
_AFTER_OUTAGE_S = 2.0


@dataclass(slots=True)
class LoopEvent:
    """An event set from any thread and awaited by one task of the event loop; it stays set until awaited."""

    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Belong to the loop that runs now; before that, setting does nothing."""
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        self.call(self._event.set)

    def call(self, work: Callable[[], None]) -> None:
        """Have the loop call something; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    async def wait(self, at_most_s: float) -> bool:
        """Wait until it is set; False when time ran out."""
        try:
            async with asyncio.timeout(at_most_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


@dataclass(slots=True, eq=False)
class _Listener:
    campaign: str | None
    queue: asyncio.Queue[EventRecord | None] = field(default_factory=lambda: asyncio.Queue(_QUEUE))

    def offer(self, event: EventRecord | None) -> None:
        if event is not None and self.campaign is not None and event.campaign != self.campaign:
            return
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:  # too slow: it is cut off, and gets what it missed when it comes back
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)


@dataclass(slots=True)
class Feed:
    """Hands events to everybody who listens."""

    control: Callable[[], Control]
    """That of the open store; an event is shown only when no earlier one can still appear."""
    is_away: Callable[[BaseException], bool]
    on_change: Callable[[int], None]
    """Called with how many listen."""
    _listeners: set[_Listener] = field(default_factory=set)
    _position: int = 0
    _reader: asyncio.Task[None] | None = None
    _wake: LoopEvent = field(default_factory=LoopEvent)
    _closing: bool = False

    async def listen(self, after: int | None, campaign: str | None = None) -> AsyncIterator[bytes]:
        """The events as they are sent, from one on; from now on when `after` is None."""
        if self._closing:
            return
        listener = _Listener(campaign)
        try:
            yield b"retry: 2000\n\n"
            floor = await self._join(listener)
            if after is not None:
                async for event in self._missed(after, floor, campaign):
                    yield written(event)
            while (line := await self._next(listener)) is not None:
                yield line
        finally:
            self._listeners.discard(listener)
            self.on_change(len(self._listeners))

    def push(self, event: EventRecord) -> None:
        """Hand out an event that is not kept; from any thread."""
        self._wake.call(lambda: self._hand_out(event))

    def nudge(self) -> None:
        """Say that there may be new events; from any thread."""
        self._wake.set()

    def start(self) -> None:
        """Belong to the loop that runs now."""
        self._wake.bind()

    def rewind(self, newest: int) -> None:
        """Note that events were removed with their campaign, so that numbers may be used again; from any thread."""

        def rewind() -> None:
            self._position = min(self._position, newest)

        self._wake.call(rewind)

    def close(self) -> None:
        self._closing = True
        for listener in tuple(self._listeners):
            listener.offer(None)
        if self._reader is not None:
            self._reader.cancel()

    def _hand_out(self, event: EventRecord) -> None:
        for listener in tuple(self._listeners):
            listener.offer(event)

    async def _join(self, listener: _Listener) -> int:
        """Begin to get new events; return the id up to which the listener must read for itself."""
        if self._reader is None or self._reader.done():
            newest = await anyio.to_thread.run_sync(self.control().last_event)
            if self._reader is None or self._reader.done():  # no other listener came first meanwhile
                self._position = newest
                self._listeners.add(listener)
                self._reader = asyncio.get_running_loop().create_task(self._read())
        self._listeners.add(listener)
        self.on_change(len(self._listeners))
        return self._position

    async def _missed(self, after: int, floor: int, campaign: str | None) -> AsyncIterator[EventRecord]:
        while after < floor:
            page = await anyio.to_thread.run_sync(self.control().events_after, after, campaign, _PAGE)
            for event in page:
                if event.id is not None and event.id > floor:
                    return
                yield event
                after = event.id or after
            if len(page) < _PAGE:
                return

    async def _next(self, listener: _Listener) -> bytes | None:
        """The next thing to send: an event, a sign of life, or None at the end."""
        try:
            async with asyncio.timeout(STILL_HERE_S):
                event = await listener.queue.get()
        except TimeoutError:
            return b": still here\n\n"
        return None if event is None else written(event)

    async def _read(self) -> None:
        away = False
        while self._listeners and not self._closing:
            try:
                page = await anyio.to_thread.run_sync(self.control().events_after, self._position, None, _PAGE)
                away = False
            except Exception as problem:
                if not self.is_away(problem):
                    raise
                if not away:
                    log_event("live updates paused", level=logging.WARNING, because="the database is away")
                away, page = True, ()
            for event in page:
                self._hand_out(event)
                self._position = event.id or self._position
            if len(page) < _PAGE:
                await self._wake.wait(_AFTER_OUTAGE_S if away else POLL_S)


def written(event: EventRecord) -> bytes:
    """A server-sent event; browsers listen for the names `job`, `campaign` and `progress`."""
    if event.id is None:
        return f"event: progress\ndata: {to_json(event)}\n\n".encode()
    return f"id: {event.id}\nevent: {'campaign' if event.job is None else 'job'}\ndata: {to_json(event)}\n\n".encode()

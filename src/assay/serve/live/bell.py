"""A bell: rung from any thread, heard by one task of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Bell:
    """Remembers that it was rung until somebody hears it."""

    _rung: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def hang(self) -> None:
        """Belong to the loop that runs now; before that, ringing does nothing."""
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake whoever waits; from any thread."""
        self.soon(self._rung.set)

    def soon(self, work: Callable[[], None]) -> None:
        """Have something done by the loop; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    async def wait(self, at_most_s: float) -> bool:
        """Wait for a ring; whether there was one in that time."""
        try:
            async with asyncio.timeout(at_most_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

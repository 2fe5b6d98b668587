"""Requests that are answered at the same time wait for one sync of the disk together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import anyio
import anyio.to_thread

from assay.store.database import WriteAheadLog


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

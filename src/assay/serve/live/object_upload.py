"""Files go to the object store while the server works: what came in, as soon as it has settled.

A store that is away is asked again and again. What waits for it lies on disk, and no request waits with it.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

import anyio

from assay.errors import AssayError, Problem
from assay.serve.observability import tell, tell_failure
from assay.serve.state import ServerState
from assay.serve.web.problems import Unavailable, is_away
from assay.store.objects.transfer import TransferReport
from assay.store.store import Store

EVERY_S = 1.0
_END_WITHIN_S = 2.0
_LOOK_EVERY_S = 0.05
# An upload may be moved among the samples by the result that names it, which follows it within moments.
_SETTLED_S = 3.0
_TRIM_EVERY_S = 60.0


@dataclass(slots=True)
class ObjectUploader:
    """Does what waits for the object store until it is cancelled."""

    state: ServerState
    _stop: threading.Event = field(default_factory=threading.Event)
    _told: Problem | None = None
    _trimmed_s: float = 0.0

    async def run(self) -> None:
        # A thread that nobody waits for: a bucket that takes a connection and says nothing must not keep a server from
        # ending, and what is half sent is sent again by the next one.
        thread = threading.Thread(target=self._loop, name="assay-sending", daemon=True)
        thread.start()
        try:
            await anyio.sleep_forever()
        finally:
            self._stop.set()
            with anyio.move_on_after(_END_WITHIN_S, shield=True):
                while thread.is_alive():
                    await anyio.sleep(_LOOK_EVERY_S)

    def _loop(self) -> None:
        while not self._stop.is_set():
            self.tick()
            self._stop.wait(EVERY_S)

    def tick(self) -> None:
        """Do what waits, once; runs in a thread. Whatever goes wrong, the next one tries again."""
        try:
            store = self.state.kept.store
            if store.backing is None:
                return
            self.state.metrics.objects_waiting.set(store.backing.outbox.count("send"))
            if store.backing.rests:
                return
            self._say(store, store.work_off(settled_s=_SETTLED_S, stop=self._stop))
            if time.monotonic() - self._trimmed_s > _TRIM_EVERY_S:
                self._trimmed_s = time.monotonic()
                store.trim()
        except Unavailable:
            return  # there is no store yet
        except AssayError as problem:
            if not is_away(problem):
                self._failed(problem.problem)
        except Exception as problem:
            if not is_away(problem):
                tell_failure("sending failed", problem)

    def _say(self, store: Store, done: TransferReport | None) -> None:
        if done is None or store.backing is None:
            return
        self.state.metrics.objects_waiting.set(done.waiting)
        if done.files or done.deleted:
            tell("files sent", files=done.files, size_bytes=done.size_bytes, deleted=done.deleted, waiting=done.waiting)
        if done.problems:
            self._failed(done.problems[0], waiting=done.waiting)
        elif self._told is not None and (done.files or done.deleted or not done.waiting):
            self._told = None
            tell("works again", step="send files", where=store.backing.url)

    def _failed(self, problem: Problem, **fields: object) -> None:
        """Tell a problem once, until it is another or over."""
        if self._told is None or self._told.code != problem.code:
            tell("files wait", level=logging.WARNING, because=problem.message, **fields)
        self._told = problem

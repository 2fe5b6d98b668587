"""Progress on its way to the server: the newest state of each attempt, seldom, and never in the way of measuring."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from assay.errors import AssayError
from assay.place.fleet.client import FleetClient
from assay.place.fleet.protocol import Held, Progress

_log = logging.getLogger("assay.agent")
_BETWEEN_S = 1.0
_LOOK_UP_S = 60.0
_MAX_LINES = 500
_MAX_LINE = 2000


@dataclass(slots=True)
class _News:
    """What the server does not know yet of one attempt."""

    last: Progress
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_LINES))
    """Older lines make room for newer ones."""


class ProgressPost:
    """Sends progress from a thread of its own, at most once a second; what is overtaken is never sent."""

    def __init__(self, client: FleetClient, on_lost: Callable[[Held], None], ended: threading.Event) -> None:
        self._client = client
        self._on_lost = on_lost
        self._ended = ended
        self._news: dict[Held, _News] = {}
        self._lock = threading.Condition()
        self._sending: Held | None = None

    def start(self) -> None:
        """Begin sending."""
        threading.Thread(target=self._run, name="progress", daemon=True).start()

    def note(self, held: Held, progress: Progress) -> None:
        """Take the newest state of an attempt, with its new log lines; returns at once."""
        with self._lock:
            news = self._news.setdefault(held, _News(progress))
            news.last = progress
            news.lines.extend(line[:_MAX_LINE] for line in progress.log)
            self._lock.notify_all()

    def finish(self, held: Held, timeout_s: float = 2.0) -> None:
        """Send the last lines of an attempt that has ended; whatever else was to be said of it is overtaken."""
        with self._lock:
            self._lock.wait_for(lambda: self._sending != held, timeout_s)
            news = self._news.pop(held, None)
        if news is not None and news.lines:
            self._send(held, news)

    def _run(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                if not self._lock.wait_for(lambda: bool(self._news), _LOOK_UP_S):
                    continue
                held, news = next(iter(self._news.items()))
                del self._news[held]
                self._sending = held
            self._send(held, news)
            with self._lock:
                self._sending = None
                self._lock.notify_all()
                others = len(self._news)
            # Whatever happens within this second is told together.
            self._ended.wait(_BETWEEN_S / max(others, 1))

    def _send(self, held: Held, news: _News) -> None:
        message = replace(news.last, log=tuple(news.lines))
        try:
            if not self._client.progress(held.job, held.fence, message):
                self._on_lost(held)
        except AssayError as problem:
            _log.debug("progress dropped job=%s: %s", held.job, problem.problem.message)
        except Exception:  # a defect of ours must not end the thread
            _log.exception("progress dropped job=%s", held.job)

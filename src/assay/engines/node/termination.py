"""Being asked to end: by a signal of the batch system, by the group's `stop` file, or because the parent is gone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

# What a batch system sends before it kills, and what a lost terminal or Ctrl-C in a step sends.
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
_LOOK_S = 0.2


class TerminationRequest(BaseException):
    """Somebody wants this process to end; like KeyboardInterrupt, nothing on the way may take it for a failure."""


class TerminationWatch:
    """Looks out for whoever wants this process to end."""

    def __init__(self, stop: Path | None = None, abandoned: Callable[[], str] = lambda: "") -> None:
        """What to look at.

        Args:
            abandoned: says why nobody else will ask for it; empty as long as somebody may.
        """
        self._stop = stop
        self._abandoned = abandoned
        self.left_alone = False
        self._parent = os.getppid()
        self._told = threading.Event()
        self.why = ""

    def in_good_hands(self) -> None:
        """Somebody will ask for the end in any case."""
        self._abandoned = lambda: ""

    def listen(self) -> None:
        """From now on the first signal raises TerminationRequest wherever the process is; later ones are ignored."""
        for name in _SIGNALS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._signalled)

    def look(self) -> None:
        """Raise if somebody wants the end.

        Raises:
            TerminationRequest: with the reason in `why`.
        """
        if not self.why and self._stop is not None and self._stop.exists():
            self.why = "stop"
        if not self.why and os.getppid() != self._parent:
            self.why = "its parent process is gone"
        if not self.why and (why := self._abandoned()):
            self.why, self.left_alone = why, True
        if self.why:
            raise TerminationRequest(self.why)

    def wait(self) -> None:
        """Sleep for a moment, and look.

        Raises:
            TerminationRequest: with the reason in `why`.
        """
        self._told.wait(_LOOK_S)
        self.look()

    @property
    def stopped(self) -> bool:
        """Whether it was the `stop` file that asked: the end in good order."""
        return self.why == "stop"

    def _signalled(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (signal's signature)
        self._told.set()
        if self.why:  # it is ending already: nothing may disturb that
            return
        if self._stop is not None and self._stop.exists():
            self.why = "stop"  # `stop` was written first, and the signal came with it
        else:
            self.why = f"{signal.Signals(number).name}: cancelled, preempted or out of time"
        raise TerminationRequest(self.why)

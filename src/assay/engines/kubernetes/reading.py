"""Reading what a pod writes, again and again, each line once: words for people, and the parts of its result.

The API gives out a log from a moment on, to the second, and a reader may come twice or late. Every line carries the
moment at which it was written, by which those that were read before are passed over.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from assay.engines.kubernetes.client.api import NOT_FOUND, Api
from assay.errors import MeasureError

_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")
# The API cuts to seconds, and the clocks of nodes differ a little.
_SLACK_S = 5.0
# Of the words of one pod this much is kept: its end, like that of every log.
MAX_WORDS = 64 * 2**20


@dataclass(slots=True)
class PodLog:
    """The log of one container."""

    api: Api
    pod: str
    container: str
    words: Path
    """Where the words go."""
    is_words: Callable[[str], bool] = lambda _line: True
    """Takes a line; whether it is words, and no part of a result."""
    _last_ns: int = -1
    _at_last: int = 0
    """How many lines of that very moment were read."""
    _read_s: float | None = None
    _fresh: bool = True

    def read(self, *, whole: bool = False) -> bool:
        """Read what has come since the last time; whether there was anything.

        Args:
            whole: begin at the beginning of what the node still has: lines may have been lost on the way.

        Raises:
            MeasureError: if it cannot be read now, or not at all; nothing that was read is lost.
        """
        begun_s = time.monotonic()
        since_s = None if whole or self._read_s is None else begun_s - self._read_s + _SLACK_S
        skip_ns, skip, seen = self._last_ns, self._at_last, 0
        found: list[str] = []
        some = False
        try:
            for stamp_ns, text in _stamped(self.api.logs(self.pod, self.container, since_s=since_s, timestamps=True)):
                seen += stamp_ns == skip_ns
                new = stamp_ns > skip_ns or (stamp_ns == skip_ns and seen > skip)
                if not new and not whole:
                    continue
                some = some or new
                words = self.is_words(text)
                if new:
                    found += [text] if words else []
                    self._note(stamp_ns)
        finally:
            self._keep(found)
        self._read_s = begun_s
        return some

    def _note(self, stamp_ns: int) -> None:
        self._at_last = self._at_last + 1 if stamp_ns == self._last_ns else 1
        self._last_ns = max(stamp_ns, self._last_ns)

    def _keep(self, lines: list[str]) -> None:
        if not lines and not self._fresh:
            return
        self.words.parent.mkdir(parents=True, exist_ok=True)
        # The first read has everything from the beginning, also what a process before has kept.
        mode = "w" if self._fresh else "a"
        if mode == "w" or self.words.stat().st_size < MAX_WORDS:
            with self.words.open(mode, encoding="utf-8", errors="replace") as file:
                file.writelines(f"{line}\n" for line in lines)
        self._fresh = False


def is_gone(problem: MeasureError) -> bool:
    """Whether a log cannot be read because its pod is gone."""
    return problem.problem.code == NOT_FOUND


def lines_of(pieces: Iterator[bytes]) -> Iterator[str]:
    """Whole lines; one that is not ended yet is left for the next time."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")


def _stamped(pieces: Iterator[bytes]) -> Iterator[tuple[int, str]]:
    last = -1
    for line in lines_of(pieces):
        stamp, _, text = line.partition(" ")
        at = stamp_ns(stamp)
        last = last if at is None else at
        yield last, line if at is None else text.rstrip("\r")


def stamp_ns(text: str) -> int | None:
    """A moment as nodes write it, in nanoseconds since the epoch; None where it is none."""
    match = _STAMP.match(text)
    if match is None:
        return None
    zone = "+00:00" if match[3] == "Z" else match[3]
    whole = int(datetime.fromisoformat(match[1] + zone).timestamp())
    return whole * 10**9 + int((match[2] or "0").ljust(9, "0"))

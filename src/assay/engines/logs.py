"""Log files that grow while a job runs: read now, or followed until the job has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.engines.base import LogChunk

_BLOCK = 1 << 16
_LOOK_S = 0.3


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file that grows while a job runs."""

    title: str
    path: Path


def read_logs(logs: Sequence[LogFile]) -> Iterator[LogChunk]:
    """What the logs hold now, one text after another."""
    for log in logs:
        try:
            text = log.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if text:
            yield LogChunk(log.title, text)


def follow_logs(
    logs: Callable[[], Sequence[LogFile]], ended: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
) -> Iterator[LogChunk]:
    """What comes into the logs, as it comes, until the job has ended and everything was read.

    Args:
        logs: the files; asked again, since those of a job that waits are not known yet.
    """
    read: dict[Path, int] = {}
    while True:
        over = ended()
        quiet = True
        for log in logs():
            text, read[log.path] = _more(log.path, read.get(log.path, 0))
            if text:
                quiet = False
                yield LogChunk(log.title, text)
        if over and quiet:
            return
        if quiet:
            sleep(_LOOK_S)


def _more(path: Path, begin: int) -> tuple[str, int]:
    """Whole lines after a place, and the next place; of a line without an end, what there is once it is long."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < begin:  # written again from the start: the job was put back into the queue
                begin = 0
            file.seek(begin)
            content = file.read(_BLOCK)
    except OSError:
        return "", begin
    whole = content.rfind(b"\n") + 1 or (len(content) if len(content) == _BLOCK else 0)
    return content[:whole].decode(errors="replace"), begin + whole

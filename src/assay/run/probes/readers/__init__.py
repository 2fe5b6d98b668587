"""Readers of a machine: what each gives back, and files of the kernel that are read again and again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class MachineReading:
    """One look: sums since some fixed moment, and states of now."""

    totals: dict[str, float] = field(default_factory=dict)
    states: dict[str, float] = field(default_factory=dict)


class KernelFile:
    """A file that is opened once and read from its start each time: half the cost of opening it again."""

    __slots__ = ("_fd", "_size", "_whole", "path")

    def __init__(self, path: Path, size: int = 4096, *, whole: bool = False) -> None:
        self.path, self._size, self._whole = path, size, whole
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """The content of now."""
        text = os.pread(self._fd, self._size, 0)
        if self._whole:
            # The kernel gives a page at most, however much is asked for.
            while more := os.pread(self._fd, self._size, len(text)):
                text += more
        return text

    def number(self) -> float:
        return float(os.pread(self._fd, 64, 0))

    def close(self) -> None:
        os.close(self._fd)


def why(problem: Exception) -> str:
    """An error in words; one of the system with the file that it is about."""
    if not isinstance(problem, OSError):
        return str(problem)
    place = f"{problem.filename}: " if problem.filename else ""
    return f"{place}{(problem.strerror or str(problem)).lower()}"

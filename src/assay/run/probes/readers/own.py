"""Our own processes: what the harness itself uses is neither the job's nor that of others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from assay.run.probes.readers.reading import Kept


class Own:
    """This process, and those that started it."""

    def __init__(self, pids: Sequence[int], root: Path = Path("/")) -> None:
        self.pids = {os.getpid(), *pids}
        self._files: list[Kept] = []
        for pid in pids if sys.platform == "linux" else ():
            try:
                self._files.append(Kept(root / "proc" / str(pid) / "stat", 1024))
            except OSError:
                continue
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK") if self._files else 0.0
        self._last_s = [0.0] * len(self._files)

    def read(self) -> float:
        """Seconds of processor time so far."""
        for number, file in enumerate(self._files):
            try:
                text = file.read()
                fields = text[text.rindex(b")") + 2 :].split(None, 14)
                self._last_s[number] = (int(fields[11]) + int(fields[12])) * self._tick_s
            except (OSError, ValueError, IndexError):  # it has ended
                continue
        return time.process_time() + sum(self._last_s)

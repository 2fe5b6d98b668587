"""Processes of the tests: each has a log, and all are ended in the reverse order of their start."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep

PATIENCE_S = 120.0
_POLL_S = 0.05
_LEAVE_S = 10.0
_LAST_WORDS = 2_000


class Daemons:
    """What was started in one folder, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def spawn(self, name: str, *words: str | Path, more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a process under a name that nothing else has."""
        assert name not in self._processes, f"{name} runs already"
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(word) for word in words],
                env={**os.environ, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # Ctrl-C is for the tests, which then end everything in order.
                start_new_session=True,
            )
        self._processes[name] = process
        return process

    def __getitem__(self, name: str) -> subprocess.Popen[bytes]:
        return self._processes[name]

    def __contains__(self, name: str) -> bool:
        return name in self._processes

    def log(self, name: str) -> Path:
        """Where a process writes."""
        return self.folder / f"{name}.log"

    def end(self, name: str, *, hard: bool = False) -> None:
        """End one process, by asking or without; nothing happens where it does not run."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.kill() if hard else process.terminate()
        try:
            process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End everything at once, the newest first: nothing of it is needed any more."""
        for name in reversed(list(self._processes)):
            self.end(name, hard=True)

    def until(self, what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Wait until something holds.

        Raises:
            RuntimeError: if it does not in time, or if a process ended meanwhile; with what the logs say.
        """
        until_s = monotonic() + patience_s
        while not holds():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or monotonic() > until_s:
                why = f"ended: {', '.join(ended)}" if ended else f"not within {patience_s:g} s"
                raise RuntimeError(f"{what}: {why}\n{self._last_words(ended or list(self._processes))}")
            sleep(_POLL_S)

    def _last_words(self, names: list[str]) -> str:
        logs = [log for name in names for log in (self.log(name), *sorted((self.folder / name).glob("*.log")))]
        words = {log: log.read_text(errors="replace")[-_LAST_WORDS:] for log in logs if log.exists()}
        return "\n".join(f"{log.name}: {text}" for log, text in words.items())

"""How far a job on a node is, written into the shared folder while it is measured, for whoever follows the campaign."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from assay.engines.base import Progress
from assay.report.live import PlainView

# A shared file system is not written to more often than this while a phase goes on: the node is measuring.
EVERY_S = 5.0


class ProgressView(PlainView):
    """Says on its own log what a plain view says, and writes down how far the job is."""

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stdout)
        self._path = path
        self._run, self._of, self._phase, self._share = 0, 0, "", 0.0
        self._written_s = -EVERY_S

    def run(self, run_id: int, of: int) -> None:
        super().run(run_id, of)
        self._run, self._of, self._phase, self._share = run_id + 1, of, "", 0.0
        self._write()

    def phase(self, name: str) -> None:
        self._phase, self._share = name, 0.0
        self._write()

    def progress(self, share: float, note: str) -> None:  # noqa: ARG002  (notes are for the node's own log)
        """So much of the phase is done."""
        self._share = share
        if time.monotonic() - self._written_s >= EVERY_S:
            self._write()

    def _write(self) -> None:
        """Write it whole; a folder that cannot be written to now must not end a measurement."""
        if not self._run:
            return
        self._written_s = time.monotonic()
        told = {"run": self._run, "of": self._of, "phase": self._phase, "share": self._share}
        partial = self._path.with_suffix(".part")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(told))
            partial.replace(self._path)


def read_progress(path: Path) -> Progress | None:
    """How far a job is; None where it has not said so yet."""
    try:
        told = json.loads(path.read_text())
        return Progress(int(told["run"]), int(told["of"]), str(told["phase"]), float(told["share"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""Whether a campaign was left half submitted: then nobody is in Slurm who would end what runs on this node.

Services and the monitor are submitted before the batch job that ends them. Where the login shell is lost in between,
and nobody attaches, they would hold their nodes until their time limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from assay.engines.slurm.folder import Folder
from assay.errors import AssayError

CODE = "submission-abandoned"
# A busy controller may take minutes for one sbatch; a site can set another time, in seconds.
VARIABLE = "ASSAY_SUBMISSION_WITHIN"
_WITHIN_S = 600.0
# How often the lines are read, of which there may be many on a shared file system.
_LOOK_S = 5.0


class Submission:
    """Looks whether the batch job that ends this one is with Slurm."""

    def __init__(self, folder: Folder, end: str, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._end, self._now = folder, end, now
        self._within_s = _within_s()
        self._lines, self._changed_s = -1, now()
        self._due_s = now()
        self._whole = False

    def abandoned(self) -> str:
        """Why nobody will end this batch job, in words; empty as long as somebody may."""
        if self._whole or self._now() < self._due_s:
            return ""
        self._due_s = self._now() + min(_LOOK_S, self._within_s / 4)
        try:
            lines = list(self._folder.noted())
        except AssayError:  # a shared folder that is away for a moment
            return ""
        # Without any line the script was submitted by hand: whoever did that ends it.
        self._whole = not lines or any(line.get("name") == self._end and line.get("id") for line in lines)
        if self._whole:
            return ""
        if len(lines) != self._lines:
            self._lines, self._changed_s = len(lines), self._now()
        if self._now() - self._changed_s < self._within_s:
            return ""
        return f"its campaign was not submitted whole, and nobody went on with that for {self._within_s:g} s"


def _within_s() -> float:
    try:
        return max(float(os.environ.get(VARIABLE, "")), 0.1)
    except ValueError:
        return _WITHIN_S

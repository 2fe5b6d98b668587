"""What a process on a node knows of its campaign: its groups, their job documents, and whether it was submitted whole.

Services and the monitor are submitted before the batch job that ends them. Where the login shell is lost in between,
if no process attaches, they would hold their nodes until their time limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.plan import Group
from assay.errors import AssayError, UsageError
from assay.plan.job import Job
from assay.run.services.containers import VARIABLE as RUNTIME
from assay.spec.slurm import Slurm

CODE = "submission-abandoned"
# A busy controller may take minutes for one sbatch; a site can set another time, in seconds.
VARIABLE = "ASSAY_SUBMISSION_WITHIN"
_WITHIN_S = 600.0
# How often the lines are read, of which there may be many on a shared file system.
_POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeCampaign:
    """The part of a campaign's document that nodes read."""

    campaign: str
    groups: tuple[Group, ...]
    slurm: Slurm = field(default_factory=Slurm)

    def group(self, name: str) -> Group:
        match = next((group for group in self.groups if group.name == name), None)
        if match is None:
            names = ", ".join(group.name for group in self.groups) or "none"
            raise UsageError(f"the campaign has no group {name!r} (it has {names})", code="no-group", at=self.campaign)
        return match


def read_known(folder: SharedFolder) -> NodeCampaign:
    """What nodes know of a campaign; what runs images here is set for all that this process starts."""
    campaign = folder.read_campaign(NodeCampaign)
    if campaign.slurm.runtime != "auto":
        os.environ.setdefault(RUNTIME, campaign.slurm.runtime)
    return campaign


def job_at(folder: SharedFolder, group: Group, place: int) -> Job:
    """The job at a place of a group, which is its index in the array."""
    if not 0 <= place < len(group.jobs):
        raise UsageError(f"group {group.name} has {len(group.jobs)} jobs, and none at {place}", code="no-job")
    return folder.read_job(group.jobs[place])


class SubmissionWatch:
    """Looks whether the batch job that ends this one is with Slurm."""

    def __init__(self, folder: SharedFolder, end: str, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._end, self._now = folder, end, now
        self._within_s = _within_s()
        self._lines, self._changed_s = -1, now()
        self._due_s = now()
        self._whole = False

    def abandoned(self) -> str:
        """Why no process will end this batch job, in words; empty as long as one may."""
        if self._whole or self._now() < self._due_s:
            return ""
        self._due_s = self._now() + min(_POLL_S, self._within_s / 4)
        try:
            lines = list(self._folder.noted())
        except AssayError:  # a shared folder that is away for a moment
            return ""
        # Without any line the script was submitted by hand: the user who did that ends it.
        self._whole = not lines or any(line.get("name") == self._end and line.get("id") for line in lines)
        if self._whole:
            return ""
        if len(lines) != self._lines:
            self._lines, self._changed_s = len(lines), self._now()
        if self._now() - self._changed_s < self._within_s:
            return ""
        return f"its campaign was not submitted whole, and no process continued the submission for {self._within_s:g} s"


def _within_s() -> float:
    try:
        return max(float(os.environ.get(VARIABLE, "")), 0.1)
    except ValueError:
        return _WITHIN_S

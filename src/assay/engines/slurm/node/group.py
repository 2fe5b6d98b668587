"""What a process on a node knows of its campaign: its groups, their job documents, and the site's own choices."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from assay.engines.slurm.folder import Folder
from assay.engines.slurm.plan import Group
from assay.errors import UsageError
from assay.plan.job import Job
from assay.run.services.containers.choosing import VARIABLE
from assay.spec.clusters import Slurm


@dataclass(frozen=True, slots=True)
class Known:
    """The part of a campaign's document that nodes read."""

    campaign: str
    groups: tuple[Group, ...]
    slurm: Slurm = field(default_factory=Slurm)

    def group(self, name: str) -> Group:
        """A group of the campaign.

        Raises:
            UsageError: if there is none of that name.
        """
        found = next((group for group in self.groups if group.name == name), None)
        if found is None:
            known = ", ".join(group.name for group in self.groups) or "none"
            raise UsageError(f"the campaign has no group {name!r} (it has {known})", code="no-group", at=self.campaign)
        return found


def read_known(folder: Folder) -> Known:
    """What nodes know of a campaign; what runs images here is set for all that this process starts.

    Raises:
        UsageError: if there is no campaign in the folder.
    """
    known = folder.read_campaign(Known)
    if known.slurm.runtime != "auto":
        os.environ.setdefault(VARIABLE, known.slurm.runtime)
    return known


def job_at(folder: Folder, group: Group, place: int) -> Job:
    """The job at a place of a group, which is its index in the array.

    Raises:
        UsageError: if the group has fewer.
    """
    if not 0 <= place < len(group.jobs):
        raise UsageError(f"group {group.name} has {len(group.jobs)} jobs, and none at {place}", code="no-job")
    return folder.read_job(group.jobs[place])

"""What a campaign on a cluster is, written down in its shared folder: any later process can go on from it alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay.engines.slurm.folder import Folder
from assay.engines.slurm.plan import Group
from assay.engines.slurm.scheduler import Kind
from assay.errors import UsageError
from assay.files import write_whole
from assay.spec.clusters import Batch, Slurm

Role = Literal["monitor", "service", "jobs", "steps", "end"]
# Beside the campaigns of a store: where the shared folder of each one lies.
_POINTERS = "clusters"


@dataclass(frozen=True, slots=True)
class After:
    """A batch job may begin only after others, by their names."""

    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One sbatch of the campaign."""

    name: str
    """Of its script, its logs and its comment."""
    role: Role
    group: str
    batch: Batch
    """What it asks for, needs included."""
    service: str = ""
    tasks: int | None = None
    """Tasks of its array; None for a single batch job."""
    after: tuple[After, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterCampaign:
    """The document of a campaign on a cluster."""

    campaign: str
    benchmark: str
    created_at: str
    slurm: Slurm
    """The section of the file, with the settings of the cluster that it names put in."""
    groups: tuple[Group, ...]
    batches: tuple[Planned, ...]
    """Every sbatch, in the order in which they are submitted."""
    monitored: bool = False
    schema: Literal["assay.engines.slurm/1"] = "assay.engines.slurm/1"

    def group(self, name: str) -> Group:
        return next(one for one in self.groups if one.name == name)

    def place_of(self, index: int) -> tuple[Group, int]:
        group = next(one for one in self.groups if index in one.jobs)
        return group, group.jobs.index(index)

    def batch_of(self, group: str) -> Planned:
        """The sbatch that runs the jobs of a group."""
        return next(one for one in self.batches if one.group == group and one.role in ("jobs", "steps"))

    def services_of(self, group: str) -> tuple[Planned, ...]:
        """The sbatches that hold the services of a group."""
        return tuple(one for one in self.batches if one.group == group and one.role == "service")


def read_document(folder: Folder) -> ClusterCampaign:
    """The document of a campaign.

    Raises:
        UsageError: if there is none.
    """
    return folder.read_campaign(ClusterCampaign)


def remember_folder(store: Path, campaign: str, folder: Folder) -> None:
    """Note in a store where the shared folder of a campaign lies."""
    text = json.dumps({"campaign": campaign, "folder": str(folder.path)})
    write_whole(store / _POINTERS / f"{campaign}.json", text.encode())


def forget_folder(store: Path, campaign: str) -> None:
    """Forget where the shared folder of a campaign lay."""
    (store / _POINTERS / f"{campaign}.json").unlink(missing_ok=True)


def folder_of(store: Path, campaign: str) -> Folder:
    """The shared folder of a campaign of a store.

    Raises:
        UsageError: if it was not submitted to a cluster from this store.
    """
    pointer = store / _POINTERS / f"{campaign}.json"
    try:
        return Folder(Path(str(json.loads(pointer.read_bytes())["folder"])))
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"campaign {campaign} was not submitted to a cluster from this store",
            code="no-cluster",
            at=str(pointer),
            try_="give the store that it was submitted with, by --store or ASSAY_STORE",
        ) from None


def is_on_cluster(store: Path, campaign: str) -> bool:
    return (store / _POINTERS / f"{campaign}.json").is_file()

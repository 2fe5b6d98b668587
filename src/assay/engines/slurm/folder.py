"""The folder that login node and compute nodes share, and the document in it from which any process can continue.

No other module writes such a path by hand.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from assay.engines.folder import CampaignFolder
from assay.engines.slurm.plan import Group
from assay.engines.slurm.scheduler import Kind
from assay.errors import AssayError, StoreError, UsageError
from assay.files import write_whole
from assay.spec.slurm import Batch, Slurm

VARIABLE = "ASSAY_SHARED"
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
Role = Literal["monitor", "service", "jobs", "steps", "end"]
# Beside the campaigns of a store: where the shared folder of each one lies.
_POINTERS = "clusters"


def locate(setting: str | None, store: Path) -> Path:
    """The folder of all campaigns on clusters: as the file says, else from ASSAY_SHARED, else inside the store."""
    given = setting or os.environ.get(VARIABLE)
    return Path(given).expanduser().absolute() if given else store / "clusters"


@dataclass(frozen=True, slots=True)
class SharedFolder(CampaignFolder):
    """The shared folder of one campaign."""

    # Other members of a project may read what a campaign left; only its owner may change it.
    MODE: ClassVar[int] = 0o644
    NAMED_BY: ClassVar[str] = (
        f"name the folder that the campaign was submitted with, by place.slurm.folder or {VARIABLE}"
    )

    def progress(self, index: int) -> Path:
        """How far the measurement of one job is."""
        return self.out(index) / "progress.json"

    @property
    def scripts(self) -> Path:
        return self.path / "scripts"

    def script(self, name: str) -> Path:
        return self.scripts / f"{_checked(name)}.sh"

    # Logs of Slurm's jobs

    @property
    def logs(self) -> Path:
        """What Slurm's jobs wrote."""
        return self.path / "logs"

    def log_pattern(self, name: str, *, array: bool, stream: str) -> Path:
        """The file that Slurm itself opens for a job's `out` or `err`, with its marks for number and index."""
        folder = Path(str(self.logs).replace("%", "%%"))  # Slurm would put numbers in place of these
        return folder / f"{_checked(name)}-{'%A_%a' if array else '%j'}.{stream}"

    def log(self, name: str, key: str, stream: str) -> Path:
        """The file that a job wrote, by the key that Slurm gave it: `17`, or `17_3` for a task of an array."""
        return self.logs / f"{_checked(name)}-{_checked(key)}.{stream}"

    # Services

    def services(self, group: str) -> Path:
        return self.path / "services" / _checked(group)

    def service(self, group: str, name: str) -> Path:
        """Published when a service is ready."""
        return self.services(group) / f"{_checked(name)}.json"

    def failed_service(self, group: str, name: str) -> Path:
        """Written when a service failed, with the problem."""
        return self.services(group) / f"{_checked(name)}.failed.json"

    def service_log(self, group: str, name: str, stream: str) -> Path:
        """What a service wrote to its `out` or `err`."""
        return self.services(group) / f"{_checked(name)}.{stream}"

    def stop(self, group: str) -> Path:
        """Asks the services of a group to end."""
        return self.services(group) / "stop"

    def barrier(self, group: str, run: int) -> Path:
        """Where the clients of a load meet before a run."""
        return self.path / "barrier" / _checked(group) / f"run-{run}"

    # Monitoring

    @property
    def discovery(self) -> Path:
        """Targets for Prometheus."""
        return self.path / "discovery"

    @property
    def metrics(self) -> Path:
        """What was scraped, exported."""
        return self.path / "metrics"

    # Making, writing, reading

    def make(self) -> None:
        """Make the folder and what Slurm needs to find in it."""
        folders = (
            self.path,
            self.path / "jobs",
            self.path / "out",
            self.scripts,
            self.logs,
            self.path / "services",
            self.discovery,
            self.metrics,
        )
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise self.unusable(self.path, problem) from None

    def write_script(self, name: str, text: str) -> Path:
        """Write a batch script, ready to be submitted by hand as well."""
        self._write(self.script(name), text.encode(), mode=0o755)
        return self.script(name)

    @staticmethod
    def unusable(path: Path, problem: OSError) -> StoreError:
        """What to say where the disk refuses something."""
        return StoreError(
            f"cannot use the shared folder: {problem.strerror or problem}",
            code="shared-folder",
            at=str(path),
            try_="name a folder that you can write to and that the compute nodes see, by place.slurm.folder or "
            + VARIABLE,
        )


def _checked(name: str) -> str:
    """A name as one part of a path: it can neither leave the folder nor hide in it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name for a part of a campaign: letters, digits, _ . and - only", code="name"
        )
    return name


@dataclass(frozen=True, slots=True)
class BatchDependency:
    """A batch job may begin only after others, by their names."""

    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchPlan:
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
    after: tuple[BatchDependency, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmCampaign:
    """The document of a campaign on a cluster."""

    campaign: str
    benchmark: str
    created_at: str
    slurm: Slurm
    """The section of the file, with the settings of the cluster that it names put in."""
    groups: tuple[Group, ...]
    batches: tuple[BatchPlan, ...]
    """Every sbatch, in the order in which they are submitted."""
    monitored: bool = False
    schema: Literal["assay.cluster/1"] = "assay.cluster/1"

    def group(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)

    def place_of(self, index: int) -> tuple[Group, int]:
        group = next(candidate for candidate in self.groups if index in candidate.jobs)
        return group, group.jobs.index(index)

    def places(self) -> dict[int, tuple[Group, int]]:
        """Index of every job → its group, and its place there."""
        return {index: (group, place) for group in self.groups for place, index in enumerate(group.jobs)}

    def batch_of(self, group: str) -> BatchPlan:
        """The sbatch that runs the jobs of a group."""
        return next(batch for batch in self.batches if batch.group == group and batch.role in ("jobs", "steps"))

    def services_of(self, group: str) -> tuple[BatchPlan, ...]:
        """The sbatches that hold the services of a group."""
        return tuple(batch for batch in self.batches if batch.group == group and batch.role == "service")


def remember_folder(store: Path, campaign: str, folder: SharedFolder) -> None:
    """Note in a store where the shared folder of a campaign lies."""
    text = json.dumps({"campaign": campaign, "folder": str(folder.path)})
    write_whole(store / _POINTERS / f"{campaign}.json", text.encode())


def forget_folder(store: Path, campaign: str) -> None:
    """Forget where the shared folder of a campaign lay."""
    (store / _POINTERS / f"{campaign}.json").unlink(missing_ok=True)


def folder_of(store: Path, campaign: str) -> SharedFolder:
    pointer = store / _POINTERS / f"{campaign}.json"
    try:
        return SharedFolder(Path(str(json.loads(pointer.read_bytes())["folder"])))
    except (OSError, ValueError, KeyError, TypeError):
        message = f"campaign {campaign} was not submitted to a cluster from this store"
        remedy = "give the store that it was submitted with, by --store or ASSAY_STORE"
        raise UsageError(message, code="no-cluster", at=str(pointer), try_=remedy) from None


def is_on_cluster(store: Path, campaign: str) -> bool:
    return (store / _POINTERS / f"{campaign}.json").is_file()


def remove_folder(store: Path, campaign: str) -> str:
    """Remove the shared folder of a removed campaign; return the outcome in words, empty if there was none."""
    if not is_on_cluster(store, campaign):
        return ""
    folder = folder_of(store, campaign)
    said = _removed(folder, campaign) if folder.path.is_dir() else ""
    forget_folder(store, campaign)
    return said


def _removed(folder: SharedFolder, campaign: str) -> str:
    try:
        owner = folder.read_campaign(SlurmCampaign).campaign
    except AssayError:
        owner = ""
    if owner != campaign:  # a folder of unknown origin is left alone
        return f"left {folder.path}: it does not say that it is this campaign's"
    try:
        shutil.rmtree(folder.path)
    except OSError as problem:
        return f"could not remove all of {folder.path}: {problem.strerror or problem}; remove it by hand"
    return f"removed {folder.path}"

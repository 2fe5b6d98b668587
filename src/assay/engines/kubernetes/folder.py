"""The folder of a campaign on Kubernetes, and the document in it from which any process can continue.

It lies in the store, on this machine alone: pods never see it. No other module writes such a path by hand.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from assay.engines.folder import CampaignFolder
from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import Setting
from assay.errors import StoreError, UsageError
from assay.spec.kubernetes import Kubernetes
from assay.store.store import Store

_FOLDER = "pods"
_CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class PodFolder(CampaignFolder):
    """The folder of one campaign."""

    NAMED_BY: ClassVar[str] = "give the store that it was submitted with, by --store or ASSAY_STORE"

    def file(self, digest: str) -> Path:
        """A file that jobs need, by its content."""
        return self.path / "files" / digest

    def rank_out(self, index: int, rank: int) -> Path:
        """What another pod of the same job left; the first one's is the job's."""
        return self.out(index) if rank == 0 else self.path / "ranks" / f"{index:04}" / str(rank)

    def log(self, index: int, rank: int = 0) -> Path:
        """What a pod of a job wrote, without the parts of its result."""
        return self.path / "logs" / (f"{index:04}.log" if rank == 0 else f"{index:04}-{rank}.log")

    def service_log(self, group: str, service: str) -> Path:
        return self.path / "logs" / group / f"{service}.log"

    # Writing and reading

    def keep_file(self, digest: str, content: bytes) -> None:
        """Keep a file that jobs need: a later process may have to send it again."""
        self._write(self.file(digest), content)

    def read_file(self, digest: str) -> bytes:
        """A file that jobs need."""
        try:
            return self.file(digest).read_bytes()
        except OSError as problem:
            raise self.unusable(self.file(digest), problem) from None

    def cancel(self) -> None:
        """Record that the campaign is to end: nothing more is submitted from now on."""
        self._write(self.path / _CANCELLED, b"")

    @property
    def is_cancelled(self) -> bool:
        """Whether the campaign is to end."""
        return (self.path / _CANCELLED).exists()

    def forget_results(self) -> None:
        """Remove what the store has taken in, and the files that were sent; documents and logs stay."""
        for name in ("out", "ranks", "files"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    @staticmethod
    def unusable(path: Path, problem: OSError) -> StoreError:
        """What to say where the disk refuses something."""
        message = f"cannot use the folder of the campaign: {problem.strerror or problem}"
        remedy = "free some space, or give another store with --store"
        return StoreError(message, code="disk", at=str(path), try_=remedy)


def folder_of(store: Path, campaign: str) -> PodFolder:
    return PodFolder(store / _FOLDER / campaign)


def is_on_kubernetes(store: Path, campaign: str) -> bool:
    return folder_of(store, campaign).campaign.is_file()


def remove_folder(store: Path, campaign: str) -> None:
    """Remove what a store has of a campaign beside its results."""
    folder = folder_of(store, campaign)
    try:
        if folder.path.is_dir():
            shutil.rmtree(folder.path)
    except OSError as problem:
        raise folder.unusable(folder.path, problem) from problem


@dataclass(frozen=True, slots=True)
class KubernetesCampaign:
    """The document of a campaign on Kubernetes."""

    campaign: str
    benchmark: str
    created_at: str
    section: Kubernetes
    """The section of the file."""
    groups: tuple[Group, ...]
    namespace: str
    address: str
    """Of the API server that it was submitted to."""
    version: Version
    """Of that server, by which its objects were made."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What every pod must know of how `assay run` was called."""
    schema: Literal["assay.pods/1"] = "assay.pods/1"

    def setting(self) -> Setting:
        """What all its objects share."""
        return Setting(self.campaign, self.section, self.version, self.namespace, self.env)

    def group_of(self, index: int) -> Group:
        return next(group for group in self.groups if index in group.jobs)


def known_folder(store: Store, campaign: str) -> PodFolder:
    if not is_on_kubernetes(store.folder, campaign):
        message = f"campaign {campaign} was not submitted to Kubernetes from this store"
        remedy = "give the store that it was submitted with, by --store or ASSAY_STORE"
        raise UsageError(message, code="no-cluster", at=str(store.folder), try_=remedy)
    return folder_of(store.folder, campaign)

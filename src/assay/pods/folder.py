"""The folder of a campaign on Kubernetes: what it is, what was submitted, and what came out of its pods.

It lies in the store, on this machine alone: pods never see it. Nobody else writes such a path by hand.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from assay.documents import from_json, to_json
from assay.errors import StoreError, UsageError
from assay.files import append_line, write_whole
from assay.plan.job import Job

_FOLDER = "pods"
_CANCELLED = "cancelled"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PodFolder:
    """The folder of one campaign."""

    path: Path

    @property
    def campaign(self) -> Path:
        """What the campaign is."""
        return self.path / "campaign.json"

    @property
    def submitted(self) -> Path:
        """One line for each Job that was made."""
        return self.path / "submitted.jsonl"

    def job(self, index: int) -> Path:
        """The document of one job, as its pods get it."""
        return self.path / "jobs" / f"{index:04}.json"

    def file(self, digest: str) -> Path:
        """A file that jobs need, by its content."""
        return self.path / "files" / digest

    def out(self, index: int) -> Path:
        """What the measurement of one job left: result.json, runs/, samples/, files/."""
        return self.path / "out" / f"{index:04}"

    def rank_out(self, index: int, rank: int) -> Path:
        """What another pod of the same job left; the first one's is the job's."""
        return self.out(index) if rank == 0 else self.path / "ranks" / f"{index:04}" / str(rank)

    def log(self, index: int, rank: int = 0) -> Path:
        """What a pod of a job wrote, without the parts of its result."""
        return self.path / "logs" / (f"{index:04}.log" if rank == 0 else f"{index:04}-{rank}.log")

    def service_log(self, group: str, service: str) -> Path:
        """What a service wrote."""
        return self.path / "logs" / group / f"{service}.log"

    # Writing and reading

    def write_campaign(self, record: object) -> None:
        """Write what the campaign is."""
        self._write(self.campaign, to_json(record, indent=2).encode())

    def read_campaign(self, record: type[T]) -> T:
        """Read what the campaign is.

        Raises:
            UsageError: if there is none here, or its document is of another kind.
        """
        try:
            return from_json(record, self.campaign.read_bytes(), source=str(self.campaign))
        except FileNotFoundError:
            raise UsageError(
                "there is no campaign in this folder",
                code="no-campaign",
                at=str(self.path),
                try_="give the store that it was submitted with, by --store or ASSAY_STORE",
            ) from None
        except OSError as problem:
            raise _unusable(self.campaign, problem) from None

    def write_job(self, job: Job) -> None:
        """Write a job document under its index."""
        self._write(self.job(job.index), to_json(job, indent=2).encode())

    def read_job(self, index: int) -> Job:
        """Read a job document.

        Raises:
            UsageError: if it is not there or is no job.
        """
        path = self.job(index)
        try:
            return from_json(Job, path.read_bytes(), source=str(path))
        except OSError as problem:
            raise UsageError(
                f"cannot read the job document: {problem.strerror}", code="no-file", at=str(path)
            ) from None

    def keep_file(self, digest: str, content: bytes) -> None:
        """Keep a file that jobs need: a later process may have to send it again."""
        self._write(self.file(digest), content)

    def read_file(self, digest: str) -> bytes:
        """A file that jobs need.

        Raises:
            StoreError: if it is gone.
        """
        try:
            return self.file(digest).read_bytes()
        except OSError as problem:
            raise _unusable(self.file(digest), problem) from None

    def cancel(self) -> None:
        """Write down that somebody wants the end of the campaign: nothing more is submitted from now on."""
        self._write(self.path / _CANCELLED, b"")

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody wants the end of the campaign."""
        return (self.path / _CANCELLED).exists()

    def forget_results(self) -> None:
        """Remove what the store has taken in, and the files that were sent; documents and logs stay."""
        for one in ("out", "ranks", "files"):
            shutil.rmtree(self.path / one, ignore_errors=True)

    def note(self, line: dict[str, JsonValue]) -> None:
        """Append one line about the campaign; it is on disk when this returns."""
        try:
            append_line(self.submitted, json.dumps(line, separators=(",", ":")))
        except OSError as problem:
            raise _unusable(self.submitted, problem) from None

    def noted(self) -> Iterator[dict[str, JsonValue]]:
        """The lines about the campaign, in order; one that was cut short by a crash is passed over."""
        try:
            text = self.submitted.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as problem:
            raise _unusable(self.submitted, problem) from None
        for line in text.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        try:
            write_whole(path, content)
        except OSError as problem:
            raise _unusable(path, problem) from None


def folder_of(store: Path, campaign: str) -> PodFolder:
    """The folder of a campaign in a store; it need not be there."""
    return PodFolder(store / _FOLDER / campaign)


def is_on_kubernetes(store: Path, campaign: str) -> bool:
    """Whether a campaign of a store was submitted to Kubernetes."""
    return folder_of(store, campaign).campaign.is_file()


def remove_folder(store: Path, campaign: str) -> None:
    """Remove what a store has of a campaign beside its results.

    Raises:
        StoreError: if it cannot be removed.
    """
    folder = folder_of(store, campaign)
    try:
        if folder.path.is_dir():
            shutil.rmtree(folder.path)
    except OSError as problem:
        raise _unusable(folder.path, problem) from problem


def _unusable(path: Path, problem: OSError) -> StoreError:
    return StoreError(f"cannot use the folder of the campaign: {problem.strerror or problem}", code="disk",
                      at=str(path), try_="free some space, or give another store with --store")  # fmt: skip

"""The folder that login node and compute nodes share: where every document of a campaign lies.

Nobody else writes such a path by hand. Files are written whole or not at all, because another node may read at any
moment; lines are appended in one write each.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from assay.documents import from_json, to_json
from assay.errors import StoreError, UsageError
from assay.files import append_line, write_whole
from assay.plan.job import Job

VARIABLE = "ASSAY_SHARED"
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
# Other members of a project may read what a campaign left; only its owner may change it.
_MODE = 0o644
T = TypeVar("T")


def locate(setting: str | None, store: Path) -> Path:
    """The folder of all campaigns on clusters: as the file says, else from ASSAY_SHARED, else inside the store."""
    given = setting or os.environ.get(VARIABLE)
    return Path(given).expanduser().absolute() if given else store / "clusters"


@dataclass(frozen=True, slots=True)
class Folder:
    """The shared folder of one campaign."""

    path: Path

    # The campaign

    @property
    def campaign(self) -> Path:
        """What the campaign is: its benchmark, and how its groups were made."""
        return self.path / "campaign.json"

    @property
    def submitted(self) -> Path:
        """One line for each sbatch, before and after."""
        return self.path / "submitted.jsonl"

    def job(self, index: int) -> Path:
        """The document of one job."""
        return self.path / "jobs" / f"{index:04}.json"

    def out(self, index: int) -> Path:
        """What the measurement of one job leaves: result.json, runs/, samples/, files/."""
        return self.path / "out" / f"{index:04}"

    def progress(self, index: int) -> Path:
        """How far the measurement of one job is."""
        return self.out(index) / "progress.json"

    @property
    def scripts(self) -> Path:
        """The batch scripts."""
        return self.path / "scripts"

    def script(self, name: str) -> Path:
        """One batch script."""
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
        """What the services of one group publish and write."""
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
        """Make the folder and what Slurm needs to find in it.

        Raises:
            StoreError: if it cannot be made.
        """
        folders = (self.path, self.path / "jobs", self.path / "out", self.scripts, self.logs, self.path / "services",
                   self.discovery, self.metrics)  # fmt: skip
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise _unusable(self.path, problem) from None

    def write_campaign(self, record: object) -> None:
        """Write what the campaign is."""
        self._write(self.campaign, to_json(record, indent=2))

    def read_campaign(self, record: type[T]) -> T:
        """Read what the campaign is, as a record of the type that was written.

        Raises:
            UsageError: if there is no such campaign here, or its document is of another kind.
        """
        try:
            text = self.campaign.read_bytes()
        except FileNotFoundError:
            raise UsageError(
                "there is no campaign in this folder",
                code="no-campaign",
                at=str(self.path),
                try_=f"name the folder that the campaign was submitted with, by place.slurm.folder or {VARIABLE}",
            ) from None
        except OSError as problem:
            raise _unusable(self.campaign, problem) from None
        return from_json(record, text, source=str(self.campaign))

    def write_job(self, job: Job) -> Path:
        """Write a job document under its index."""
        self._write(self.job(job.index), to_json(job, indent=2))
        return self.job(job.index)

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

    def write_script(self, name: str, text: str) -> Path:
        """Write a batch script, ready to be submitted by hand as well."""
        self._write(self.script(name), text, mode=0o755)
        return self.script(name)

    def note_submission(self, line: dict[str, JsonValue]) -> None:
        """Append one line about a submission; it is on disk when this returns."""
        try:
            append_line(self.submitted, json.dumps(line, separators=(",", ":"), ensure_ascii=False), mode=_MODE)
        except OSError as problem:
            raise _unusable(self.submitted, problem) from None

    def submissions(self) -> Iterator[dict[str, JsonValue]]:
        """The lines about submissions, in order; one that was cut short by a crash is passed over."""
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
    def _write(path: Path, text: str, mode: int = _MODE) -> None:
        try:
            write_whole(path, text.encode(), mode=mode)
        except OSError as problem:
            raise _unusable(path, problem) from None


def _checked(name: str) -> str:
    """A name as one part of a path: it can neither leave the folder nor hide in it."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a part of a campaign: letters, digits, _ . and - only", code="name")
    return name


def _unusable(path: Path, problem: OSError) -> StoreError:
    return StoreError(
        f"cannot use the shared folder: {problem.strerror or problem}",
        code="shared-folder",
        at=str(path),
        try_=f"name a folder that you can write to and that the compute nodes see, by place.slurm.folder or {VARIABLE}",
    )

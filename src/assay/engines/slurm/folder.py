"""The folder that login node and compute nodes share: where every document of a campaign lies.

Nobody else writes such a path by hand.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from assay.engines.folder import CampaignFolder
from assay.errors import StoreError, UsageError

VARIABLE = "ASSAY_SHARED"
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")


def locate(setting: str | None, store: Path) -> Path:
    """The folder of all campaigns on clusters: as the file says, else from ASSAY_SHARED, else inside the store."""
    given = setting or os.environ.get(VARIABLE)
    return Path(given).expanduser().absolute() if given else store / "clusters"


@dataclass(frozen=True, slots=True)
class Folder(CampaignFolder):
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
        """Make the folder and what Slurm needs to find in it.

        Raises:
            StoreError: if it cannot be made.
        """
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
        raise UsageError(f"{name!r} is no name for a part of a campaign: letters, digits, _ . and - only", code="name")
    return name

"""What a pod knows of itself: its documents, its place to work, its services, and who else goes with it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.documents import from_json
from assay.errors import UsageError
from assay.plan.job import Job, JobFile

# Where Kubernetes reads a pod's last words; set to another place where there is no such file.
ENDED, ENDED_FILE = "ASSAY_POD_ENDED", "/dev/termination-log"
# Of a pod whose results go to a server.
SERVER = "ASSAY_POD_SERVER"
_JOB, _WORK, _FILES = "ASSAY_POD_JOB", "ASSAY_POD_WORK", "ASSAY_POD_FILES"
_RANK = "ASSAY_POD_RANK"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is reached."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Ranks:
    """The pods that go together, and which of them this is."""

    rank: int
    peers: tuple[str, ...]
    """Their names, in order of rank."""
    port: int
    launch: str = "each"
    others: tuple[str, ...] = ()
    """What pods but the first run, where the first alone runs the command."""


@dataclass(frozen=True, slots=True)
class PodContext:
    """One pod, seen from inside."""

    documents: Path
    work: Path
    job: Job
    services: Mapping[str, Address] = field(default_factory=dict)
    ranks: Ranks | None = None
    files: Path | None = None
    name: str = ""
    node: str = ""
    address: str = ""

    @property
    def out(self) -> Path:
        """What the measurement leaves."""
        return self.work / "out"

    @property
    def base(self) -> Path:
        """The folder that relative paths of the job start from."""
        return self.work / "base"

    @property
    def secret(self) -> str:
        """What the pods that go together know, and nobody else needs to."""
        peers = self.ranks.peers if self.ranks is not None else ()
        return hashlib.sha256("\0".join((self.job.campaign, *peers)).encode()).hexdigest()

    def fetch(self, file: JobFile, to: Path) -> None:
        """Put a file of the job where it belongs, from the parts that were mounted.

        Raises:
            OSError: if it cannot be written.
            UsageError: if there is no such file.
        """
        parts = [] if self.files is None else list(self.files.glob(f"{file.sha256}.*"))
        if not parts:
            raise UsageError(
                f"the file {file.name} did not come with the pod",
                code="no-file",
                at=str(self.files or ""),
                try_="submit the campaign again",
            )
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("wb") as sink:
            for part in sorted(parts, key=lambda one: int(one.suffix[1:])):
                sink.write(part.read_bytes())


def read_inside(environ: Mapping[str, str] | None = None) -> PodContext:
    """What this pod knows of itself.

    Raises:
        UsageError: if this is no pod of a campaign, or its documents cannot be read.
    """
    known = os.environ if environ is None else environ
    if _JOB not in known or _WORK not in known:
        raise UsageError(
            f"{_JOB} and {_WORK} are not set: this is no pod of a campaign",
            code="no-campaign",
            try_="`assay run FILE` starts such pods; `assay exec` measures a job document here",
        )
    documents = Path(known[_JOB])
    job = from_json(Job, _read(documents / "job.json"), source=str(documents / "job.json"))
    services = {
        name: Address(str(one["host"]), int(one["port"])) for name, one in _json(documents / "services.json").items()
    }
    return PodContext(
        documents,
        Path(known[_WORK]),
        job,
        services,
        _ranks(documents, known),
        Path(known[_FILES]) if known.get(_FILES) else None,
        known.get("ASSAY_POD_NAME", ""),
        known.get("ASSAY_POD_NODE", ""),
        known.get("ASSAY_POD_IP", ""),
    )


def _ranks(documents: Path, known: Mapping[str, str]) -> Ranks | None:
    if _RANK not in known:
        return None
    told = _json(documents / "ranks.json")
    return Ranks(
        int(known[_RANK]),
        tuple(map(str, told["peers"])),
        int(told["port"]),
        str(told.get("launch") or "each"),
        tuple(map(str, told.get("others") or ())),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_read(path))
    except ValueError as broken:
        raise UsageError(f"not a document: {broken}", code="document", at=str(path)) from None
    return found if isinstance(found, dict) else {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"cannot read a document of the pod: {problem.strerror}", code="no-file", at=str(path)
        ) from None

"""What an agent holds, on disk: every attempt stays there until the server has acknowledged its end.

attempts/<name>/lease.json      the lease, written before anything is started
attempts/<name>/out/result.json the result, with its samples and files beside it
attempts/<name>/release.json    the lease is to be given back, and why
refused/<name>/                 results that the server will never take, kept for people
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assay.agent.identity import FULL, free_bytes
from assay.documents import from_json, to_json
from assay.errors import AssayError
from assay.files import write_whole
from assay.place.fleet.protocol import Held, Release
from assay.plan.job import Job

_BALLAST_BYTES = 64 * 1024
_KEPT_REFUSED = 20
_GONE = ".gone-"


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """One attempt on disk."""

    folder: Path
    server: str
    agent: str
    job: str
    fence: int
    tag: str = ""
    """Every process of the attempt carries it."""

    def __str__(self) -> str:
        return f"job={self.job} fence={self.fence}"

    @property
    def held(self) -> Held:
        return Held(self.job, self.fence)

    @property
    def out(self) -> Path:
        """Where the executor leaves the result."""
        return self.folder / "out"

    @property
    def result(self) -> Path:
        return self.out / "result.json"

    @property
    def document(self) -> Path:
        """The job document that the executor reads."""
        return self.folder / "job.json"

    @property
    def work(self) -> Path:
        """The folder of the job's files."""
        return self.folder / "work"

    @property
    def log(self) -> Path:
        """What the executor wrote on its error stream."""
        return self.folder / "exec.log"

    def samples(self) -> Iterator[Path]:
        """Sample files, named by their content."""
        return (path for path in sorted((self.out / "samples").rglob("*.parquet")) if not path.name.startswith("."))

    def files(self) -> Iterator[Path]:
        """Further files that the runs left, named by their content."""
        return (path for path in sorted((self.out / "files").glob("??/*")) if not path.name.startswith("."))

    def leave_out(self, digest: str, reason: str) -> None:
        """Take a file out of the result, which then says why it is not there."""
        document = json.loads(self.result.read_bytes())
        for run in document["runs"]:
            files = run.get("files", {})
            names = [name for name in files if files[name] == digest]
            run["absent"] = {**run.get("absent", {}), **dict.fromkeys(names, reason)}
            run["files"] = {name: file_digest for name, file_digest in files.items() if file_digest != digest}
        write_whole(self.result, json.dumps(document).encode())
        (self.out / "files" / digest[:2] / digest).unlink(missing_ok=True)

    def release(self) -> Release | None:
        """What to report when the lease is given back, if it is."""
        with suppress(OSError, AssayError):
            return from_json(Release, (self.folder / "release.json").read_bytes(), source=str(self.folder))
        return None


class Spool:
    """The attempts of one state folder."""

    def __init__(self, folder: Path, *, min_free: int = 0) -> None:
        self.folder = folder
        self._attempts = folder / "attempts"
        self._refused = folder / "refused"
        self._ballast = folder / "ballast"
        self._min_free = min_free
        self._attempts.mkdir(parents=True, exist_ok=True, mode=0o700)

    def shortage(self) -> str:
        """Why no job can be taken, in words; empty when there is room. Keeps a little in reserve when there is."""
        try:
            free = free_bytes(self.folder)
            if free >= self._min_free and not self._ballast.exists():
                write_whole(self._ballast, bytes(_BALLAST_BYTES))
        except OSError as problem:
            return f"the state folder {self.folder} cannot be written: {problem.strerror}"
        if free >= self._min_free:
            return ""
        return f"the disk of {self.folder} has {free / 1e6:.1f} MB left; {self._min_free / 1e6:.1f} MB are kept free"

    def entry(self, server: str, agent: str, job: str, fence: int) -> SpoolEntry:
        """The place of an attempt; nothing is written yet."""
        return SpoolEntry(self._attempts / _name(job, fence), server, agent, job, fence, uuid.uuid4().hex)

    def begin(self, entry: SpoolEntry, job: Job) -> None:
        """Keep a lease before anything is done under it."""
        shutil.rmtree(entry.folder, ignore_errors=True)
        lease = {name: getattr(entry, name) for name in ("server", "agent", "job", "fence", "tag")}
        write_whole(entry.document, to_json(job).encode())
        write_whole(entry.folder / "lease.json", json.dumps(lease).encode())

    def strip(self, entry: SpoolEntry) -> None:
        shutil.rmtree(entry.out, ignore_errors=True)
        shutil.rmtree(entry.work, ignore_errors=True)

    def entries(self) -> list[SpoolEntry]:
        """All attempts on disk, oldest first; what was never written whole is removed."""
        entries = []
        for folder in sorted(self._attempts.iterdir(), key=lambda path: path.stat().st_mtime):
            entry = None if folder.name.startswith(_GONE) else _read(folder)
            if entry is None:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                entries.append(entry)
        return entries

    def give_back(self, entry: SpoolEntry, release: Release) -> bool:
        """Note that a lease is to be given back; False if not even the reserve has room for that."""
        self.strip(entry)
        for _ in range(2):
            try:
                write_whole(entry.folder / "release.json", to_json(release).encode())
            except OSError as problem:
                if problem.errno not in FULL:
                    return False
                self._ballast.unlink(missing_ok=True)
            else:
                return True
        return False

    def forget(self, entry: SpoolEntry) -> None:
        """Remove an attempt that the server has acknowledged."""
        # Renamed first: a crash half-way through leaves nothing that looks like an attempt without a result.
        gone = entry.folder.with_name(_GONE + entry.folder.name)
        with suppress(OSError):
            entry.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        shutil.rmtree(entry.folder, ignore_errors=True)

    def set_aside(self, entry: SpoolEntry) -> Path:
        """Keep a result that the server will never take, for people; only the newest ones."""
        place = self._refused_place(entry)
        entry.folder.rename(place)
        self._forget_old_refused()
        return place

    def replace_result(self, entry: SpoolEntry, result: bytes) -> Path:
        """Put another result in the place of one that the server will never take; that one is kept for people."""
        place = self._refused_place(entry)
        (place / "out").mkdir(parents=True)
        shutil.copyfile(entry.result, place / "out" / entry.result.name)
        write_whole(entry.result, result)
        self._forget_old_refused()
        return place

    def _refused_place(self, entry: SpoolEntry) -> Path:
        self._refused.mkdir(exist_ok=True, mode=0o700)
        place = self._refused / entry.folder.name
        shutil.rmtree(place, ignore_errors=True)
        return place

    def _forget_old_refused(self) -> None:
        folders = sorted(self._refused.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in folders[:-_KEPT_REFUSED]:
            shutil.rmtree(old, ignore_errors=True)


def _name(job: str, fence: int) -> str:
    """A folder name for an attempt; what a server calls its jobs never becomes a path."""
    return f"{hashlib.sha256(job.encode()).hexdigest()[:20]}-{fence}"


def _read(folder: Path) -> SpoolEntry | None:
    try:
        held = json.loads((folder / "lease.json").read_text(encoding="utf-8"))
        tag = str(held.get("tag", ""))
        return SpoolEntry(folder, str(held["server"]), str(held["agent"]), str(held["job"]), int(held["fence"]), tag)
    except (OSError, ValueError, KeyError, TypeError):
        return None

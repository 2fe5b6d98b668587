"""Files by content hash, here and in an object store behind; and those that jobs need or leave, with their names."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, TypeVar

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from assay.errors import StoreError, UsageError
from assay.files import file_digest, move_whole
from assay.run.records import SingleRunResult
from assay.store.database import TableAccess, insert_into, record_from
from assay.store.location import cannot_write
from assay.store.objects.backing import Backing, Kind
from assay.store.objects.files import ObjectFacts
from assay.store.tables import ArtefactRow, AttemptRow, JobArtefactRow, JobRow

_DIGEST = re.compile(r"[0-9a-f]{64}")
# A copy says when it was last used at most this often: it decides which copies go first, and needs no more.
_USED_EVERY_S = 60.0
_LONGEST_NAME = 255
_BLOCK = 1 << 20
# How the names of files begin that a run left, beside those that an agent attached.
_OF_A_RUN = "run-"
_LONGEST_OF_A_RUN = 200
T = TypeVar("T")


class ContentFiles:
    """A folder of files by content hash. With an object store behind it, the folder holds what is new or was used."""

    kind: ClassVar[Kind]
    suffix: ClassVar[str] = ""

    def __init__(self, folder: Path, backing: Backing | None = None) -> None:
        self.folder = folder
        self.backing = backing

    def path(self, digest: str) -> Path:
        """Where the file with a content hash lies, if it is on this machine."""
        return self.folder / digest[:2] / f"{digest}{self.suffix}"

    def key(self, digest: str) -> str:
        """What the file with a content hash is called in an object store."""
        return f"{self.kind}/{digest[:2]}/{digest}{self.suffix}"

    def find(self, digest: str) -> Path | None:
        """A file on this machine; one that only the object store has is fetched. None when neither has it."""
        path = self.path(checked_digest(digest))
        if path.is_file():
            self._used(path)
            return path
        return path if self.fetch(digest) else None

    def at_hand(self, digest: str) -> Path:
        """Where a file lies, fetched if need be; where it would lie when there is none, so that reading it fails."""
        return self.find(digest) or self.path(digest)

    def fetch(self, digest: str) -> bool:
        """Bring a file from the object store, in place of what lies here; False where that has none."""
        if self.backing is None:
            return False
        return self.backing.fetch(self.key(checked_digest(digest)), digest, self.path(digest))

    def facts(self, digest: str) -> ObjectFacts | None:
        """Size and age of a file, wherever it lies; nothing is fetched. None when it is nowhere."""
        with suppress(FileNotFoundError):
            status = self.path(checked_digest(digest)).stat()
            return ObjectFacts(self.key(digest), status.st_size, status.st_mtime)
        return None if self.backing is None else self.backing.facts(self.key(digest))

    def expect(self, digest: str) -> None:
        """Note that a file has to go to the object store; done before the file is put in its place.

        Nothing can then fall between the two: a mark without a file is found and forgotten, a file without a mark would
        stay here alone.
        """
        if self.backing is not None:
            self.backing.outbox.to_send(self.kind, digest)

    def remove(self, digest: str) -> None:
        """Delete a file here, and note that it has to go from the object store."""
        self.path(digest).unlink(missing_ok=True)
        if self.backing is not None:
            self.backing.outbox.to_delete(self.kind, digest)

    def missing(self, digests: Iterable[str]) -> tuple[str, ...]:
        """Those of some files that are neither here nor in the object store."""
        return tuple(digest for digest in dict.fromkeys(digests) if self.facts(digest) is None)

    def here(self) -> Iterator[str]:
        """The content hashes of all files on this machine."""
        for path in self.folder.glob(f"??/*{self.suffix}"):
            digest = path.name.removesuffix(self.suffix)
            if _DIGEST.fullmatch(digest) and path.parent.name == digest[:2]:
                yield digest

    def is_whole_here(self, digest: str) -> bool:
        """Whether the file on this machine has the content that its name says; nothing is fetched."""
        try:
            return file_digest(self.path(digest)) == digest
        except OSError:
            return False

    def _used(self, path: Path) -> None:
        """Note that a copy was used, so that others go before it when room is needed."""
        if self.backing is None:
            return
        with suppress(OSError):
            status, now = path.stat(), time.time()
            if now - status.st_atime > _USED_EVERY_S:
                os.utime(path, ns=(round(now * 1e9), status.st_mtime_ns))


def checked_digest(digest: str) -> str:
    """A content hash as it came, if it is one."""
    if not _DIGEST.fullmatch(digest):
        raise UsageError(
            f"{digest[:80]!r} is not a SHA-256: 64 hexadecimal digits in lower case are needed", code="digest"
        )
    return digest


@dataclass(frozen=True, slots=True)
class ArtefactRecord:
    """A file in the store."""

    sha256: str
    name: str
    size_bytes: int
    created_at: float


@dataclass(frozen=True, slots=True)
class JobArtefact:
    """A file that an attempt left."""

    job: str
    fence: int
    name: str
    sha256: str
    size_bytes: int


class Upload:
    """A file on its way in: hashed while it is written, there whole or not at all."""

    def __init__(self, files: ArtefactFiles, at_most: int | None) -> None:
        self._files = files
        self._at_most = at_most
        self._hash = hashlib.sha256()
        self.size_bytes = 0
        fd, name = _on_disk(files.folder, lambda: tempfile.mkstemp(dir=files.incoming(), prefix="part-"))
        self._partial = Path(name)
        self._file: IO[bytes] = os.fdopen(fd, "wb")

    def write(self, content: bytes) -> None:
        self.size_bytes += len(content)
        if self._at_most is not None and self.size_bytes > self._at_most:
            raise UsageError(
                f"the file has more than {self._at_most} bytes",
                code="too-large",
                try_="raise the server's limit, or let agents fetch it from a URL",
            )
        self._hash.update(content)
        _on_disk(self._files.folder, lambda: self._file.write(content))

    def keep(self, digest: str = "") -> tuple[str, bool]:
        """End the upload; return the content hash and whether the content is new here."""
        actual = self._hash.hexdigest()
        if digest and actual != digest:
            self.drop()
            raise UsageError(
                f"the content has the SHA-256 {actual}, not {digest}", code="mismatch", try_="send the file again"
            )
        path = self._files.path(actual)
        if path.exists():
            self.drop()
            return actual, False
        self._files.expect(actual)
        _on_disk(path, lambda: self._move_to(path))
        return actual, True

    def drop(self) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def _move_to(self, path: Path) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        move_whole(self._partial, path)


class ArtefactFiles(ContentFiles):
    kind: ClassVar[Kind] = "artefacts"

    def path(self, digest: str) -> Path:
        return super().path(checked_digest(digest))

    def begin(self, at_most: int | None = None) -> Upload:
        """Begin to take in a file of at most `at_most` bytes; used in a `with`, it leaves nothing half-written."""
        return Upload(self, at_most)

    def take(self, path: Path) -> str:
        """Keep a copy of a file; return its content hash."""
        with self.begin() as upload:
            source = _on_disk(path, lambda: path.open("rb"))
            with source:
                while block := _on_disk(path, lambda: source.read(_BLOCK)):
                    upload.write(block)
            return upload.keep()[0]

    def is_whole(self, digest: str) -> bool:
        """Whether a file is here with the content that its name says; a damaged one is fetched again."""
        return self.find(digest) is not None and (self.is_whole_here(digest) or self.fetch(digest))

    def sweep(self, older_than_s: float = 86_400) -> int:
        """Delete uploads that broke off long ago; return how many."""
        old = [path for path in self.incoming().iterdir() if path.stat().st_mtime < time.time() - older_than_s]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)

    def incoming(self) -> Path:
        """Where files lie while they come in: in the same file system, so that they need no second copy."""
        folder = self.folder / "incoming"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Artefacts(TableAccess):
    """What is known about files, and which job left which."""

    def note(self, digest: str, name: str, size_bytes: int) -> ArtefactRecord:
        """Keep that a file is here; one that was known keeps its first name."""
        with self._writing() as session:
            _note(session, checked_digest(digest), name, size_bytes, self._now())
            return record_from(ArtefactRecord, session.get_one(ArtefactRow, digest))

    def get(self, digest: str) -> ArtefactRecord | None:
        """What is known about a file."""
        row = self._scalar(select(ArtefactRow).where(ArtefactRow.sha256 == checked_digest(digest)))
        return None if row is None else record_from(ArtefactRecord, row)

    def attach(self, job_id: str, fence: int, agent_id: str, name: str, digest: str) -> None:
        """Keep that an attempt left a file, which must be here."""
        with self._writing() as session:
            attempt = session.get(AttemptRow, (job_id, fence))
            if attempt is None or attempt.agent_id != agent_id:
                raise UsageError(f"{agent_id} has no attempt {fence} at {job_id}", code="unknown-attempt")
            if session.get(ArtefactRow, checked_digest(digest)) is None:
                raise UsageError(f"the file {digest} is not here", code="missing-artefact", try_="upload it first")
            _attach(session, job_id, fence, name, digest)

    def of_job(self, job_id: str) -> tuple[JobArtefact, ...]:
        """The files that a job's attempts left, the newest attempt first."""
        left = JobArtefactRow
        query = select(left.job_id, left.fence, left.name, left.sha256, ArtefactRow.size_bytes)
        query = query.join(ArtefactRow, ArtefactRow.sha256 == left.sha256).where(left.job_id == job_id)
        return tuple(JobArtefact(*row) for row in self._rows(query.order_by(left.fence.desc(), left.name)))


def left_by(runs: Iterable[SingleRunResult]) -> dict[str, str]:
    """The files that runs left, under names that tell the runs apart → content hash."""
    return {
        f"{_OF_A_RUN}{run.run_id}-{plain_name(name)[-_LONGEST_OF_A_RUN:]}": digest
        for run in runs
        for name, digest in run.files.items()
    }


def note_left(session: Session, files: ArtefactFiles, job_id: str, fence: int, left: Mapping[str, str]) -> None:
    """Keep which files the runs of a job left; they must be here.

    Args:
        fence: number of the attempt, 0 for a job that needs no lease.
    """
    for name, digest in left.items():
        facts = files.facts(digest)
        if facts is None:
            raise StoreError(f"the file {digest} is not here", code="missing-artefact", at=name, try_="send it again")
        _note(session, digest, name, facts.size_bytes, facts.modified_at)
        _attach(session, job_id, fence, name, digest)


def forget_left(session: Session, campaign: str) -> Callable[[], set[str]]:
    """Find the files that the runs of a campaign left, before it goes.

    Returns:
        To be called once it is gone: forgets those that no other job has, and tells which may be deleted.
    """
    own = select(JobArtefactRow.sha256).join(JobRow, JobRow.id == JobArtefactRow.job_id)
    query = own.where(JobRow.campaign_id == campaign, JobArtefactRow.name.startswith(_OF_A_RUN, autoescape=True))
    digests = set(session.scalars(query))

    def forget() -> set[str]:
        shared = select(JobArtefactRow.sha256).where(JobArtefactRow.sha256.in_(digests))
        gone = digests - set(session.scalars(shared))
        session.execute(delete(ArtefactRow).where(ArtefactRow.sha256.in_(gone)))
        return gone

    return forget


def plain_name(name: str) -> str:
    """A file's name for people to read: without folders and control characters, and not too long."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(char for char in last if char.isprintable()).strip(". ")
    return shown.encode(errors="replace").decode()[-_LONGEST_NAME:] or "unnamed"


def _attach(session: Session, job_id: str, fence: int, name: str, digest: str) -> None:
    values = {"job_id": job_id, "fence": fence, "name": plain_name(name), "sha256": digest}
    statement = insert_into(session, JobArtefactRow).values(**values)
    session.execute(
        statement.on_conflict_do_update(index_elements=["job_id", "fence", "name"], set_={"sha256": digest})
    )


def _note(session: Session, digest: str, name: str, size_bytes: int, created_at: float) -> None:
    values = {"sha256": digest, "name": plain_name(name), "size_bytes": size_bytes, "created_at": created_at}
    session.execute(insert_into(session, ArtefactRow).values(**values).on_conflict_do_nothing())


def _on_disk(path: Path, act: Callable[[], T]) -> T:
    try:
        return act()
    except OSError as problem:
        raise cannot_write(problem, path) from None

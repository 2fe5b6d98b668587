"""What waits for an object store is done: files sent, objects deleted, copies that are not needed here taken away.

And which files records name, and whether the object store still has all of them.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from assay.errors import AssayError, Problem, StoreError
from assay.files import file_digest
from assay.run.scratch import held, is_held
from assay.store.artefacts import ContentFiles
from assay.store.database import parts_of, reading
from assay.store.objects.backing import DAMAGED, KINDS, Backing, Kind, Mark, remember
from assay.store.tables import ArtefactRow, JobArtefactRow, RunRow

# Sample files are small: what takes time is the way there and back.
_TOGETHER = 4
_POLL_S = 0.2
# A mark is made before its file is put in place. One whose file has not come after this long belongs to nothing.
_FORGOTTEN_S = 600.0
# A copy that was used so lately may be open.
_IN_USE_S = 600.0
# Files below this are sent without asking first whether they are there: the answer would take as long.
_SMALL = 1 << 20

Shelves = Mapping[Kind, ContentFiles]
Wanted = Callable[[Kind, Collection[str]], set[str]]


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What was sent, deleted, removed and left waiting."""

    files: int = 0
    size_bytes: int = 0
    deleted: int = 0
    waiting: int = 0
    """Files that still have to be sent."""
    problems: tuple[Problem, ...] = ()
    """Why they have not been."""


def tried(backing: Backing, folder: Path) -> bool:
    """Write, read and delete a small object; whether files of assay are there already."""
    content = uuid.uuid4().bytes
    key = f"test-object/{content.hex()[:12]}"
    if backing.settings.place.scheme == "file":
        Path(backing.settings.place.prefix).mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f".{content.hex()}"
    source.write_bytes(content)
    try:
        backing.attempted(lambda objects: objects.put(key, source))
    finally:
        source.unlink(missing_ok=True)
    back = backing.content_digest(key)
    there = backing.attempted(lambda store: next(store.list("samples"), None) or next(store.list("artefacts"), None))
    backing.delete([key])
    if back != hashlib.sha256(content).hexdigest():
        raise StoreError("what was written cannot be read back", code=DAMAGED, at=backing.url)
    return there is not None


def join(folder: Path, backing: Backing, shelves: Shelves) -> int:
    """Put an object store behind a store's folder: everything that lies there has to go to it; return how much.

    The folder remembers it last, so that a process that ends in the middle leaves nothing out.
    """
    if backing.settings.place.scheme == "file":
        Path(backing.settings.place.prefix).mkdir(parents=True, exist_ok=True)
    backing.open()
    count = 0
    for shelf in shelves.values():
        for digest in shelf.here():
            shelf.expect(digest)
            count += 1
    remember(folder, backing.settings)
    return count


def work_off(
    backing: Backing,
    shelves: Shelves,
    wanted: Wanted,
    *,
    sends: bool = True,
    settled_s: float = 0.0,
    stop: threading.Event | None = None,
) -> TransferReport:
    """Send and delete what waits for an object store. What cannot be done now is reported and stays waiting.

    Args:
        wanted: tells which of some files records still name, so that these are not deleted.
        settled_s: leave files alone that came so lately: an upload may soon be moved.
    """
    folder = backing.outbox.folder
    if not backing.outbox.count("send") and not backing.outbox.count("delete"):
        return TransferReport()
    if is_held(folder):
        return TransferReport(waiting=backing.outbox.count("send"))  # another process is at it
    with held(folder):
        if not backing.rests:
            backing.wake()  # the pause is over: every request probes again
        work = _Work(backing, shelves, stop or threading.Event())
        if sends:
            work.send([mark for mark in backing.outbox.marks("send") if mark.age_s >= settled_s])
        work.delete(backing.outbox.marks("delete"), wanted)
        return TransferReport(
            work.files, work.size_bytes, work.deleted, backing.outbox.count("send"), tuple(work.problems)
        )


@dataclass(slots=True)
class _Work:
    """One pass over what waits."""

    backing: Backing
    shelves: Shelves
    stop: threading.Event
    files: int = 0
    size_bytes: int = 0
    deleted: int = 0
    problems: list[Problem] = field(default_factory=list)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _off: bool = False
    _broke: Exception | None = None

    def send(self, marks: Collection[Mark]) -> None:
        """Send files, several together, until the object store is away.

        A store that takes a connection and then says nothing does not delay the end of the process: what is half sent
        is sent again, so that its threads need not be waited for.
        """
        todo = iter(marks)
        threads = [
            threading.Thread(target=self._send_some, args=(todo,), name="assay-send", daemon=True)
            for _ in range(min(_TOGETHER, len(marks)))
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive() and not self.stop.is_set():
                    thread.join(_POLL_S)
        except BaseException:  # such as Ctrl-C
            self._off = True
            raise
        if self._broke is not None:
            raise self._broke

    def _send_some(self, todo: Iterator[Mark]) -> None:
        try:
            while True:
                with self._counting:
                    mark = next(todo, None)
                if mark is None:
                    return
                size = self._send(mark)
                with self._counting:
                    self.files += size is not None
                    self.size_bytes += size or 0
        except Exception as problem:
            self._broke, self._off = problem, True

    def _send(self, mark: Mark) -> int | None:
        """Send one file; its size, or None if it was not sent."""
        if self._off or self.stop.is_set():
            return None
        shelf = self.shelves[mark.kind]
        path = shelf.path(mark.digest)
        try:
            size = path.stat().st_size
            key = shelf.key(mark.digest)
            there = size >= _SMALL and (stored := self.backing.facts(key)) is not None and stored.size_bytes == size
            if not there and not self._put(mark, key, path):
                return None
            self.backing.outbox.done(mark)
        except FileNotFoundError:  # moved or removed meanwhile
            if mark.age_s > _FORGOTTEN_S:
                self.backing.outbox.done(mark)
            return None
        except AssayError as problem:
            self._failed(problem.problem, ends=True)
            return None
        except OSError as problem:
            self._failed(Problem("disk", f"cannot read: {problem.strerror}", str(path)), ends=False)
            return None
        return 0 if there else size

    def _put(self, mark: Mark, key: str, path: Path) -> bool:
        """Send a file, unless it is damaged: then the object store may have a whole one."""
        if file_digest(path) != mark.digest:
            reason = "a file is damaged and was not sent: its content does not match its name"
            self._failed(Problem("damaged", reason, str(path), "restore it from a copy"), ends=False)
            return False
        self.backing.attempted(lambda objects: objects.put(key, path))
        return True

    def delete(self, marks: Collection[Mark], wanted: Wanted) -> None:
        """Delete objects that no record names."""
        for kind, shelf in self.shelves.items():
            own_marks = [mark for mark in marks if mark.kind == kind]
            if not own_marks or self._off or self.stop.is_set():
                continue
            still = wanted(kind, {mark.digest for mark in own_marks})
            gone = [mark for mark in own_marks if mark.digest not in still]
            try:
                if gone:
                    self.backing.delete([shelf.key(mark.digest) for mark in gone])
            except AssayError as problem:
                self._failed(problem.problem, ends=True)
                return
            self.deleted += len(gone)
            for mark in own_marks:
                self.backing.outbox.done(mark)

    def _failed(self, problem: Problem, *, ends: bool) -> None:
        with self._counting:
            self._off = self._off or ends
            if problem not in self.problems:
                self.problems.append(problem)


def trim(backing: Backing, shelves: Shelves, wanted: Wanted) -> int:
    """Take copies away that the object store has, the longest unused first, until they fit; return how many.

    A file that has not been sent stays, and so does one that the object store turns out not to have: it is sent again,
    unless no record names it, because another server of the same database removed it.
    """
    most = backing.settings.cache_bytes
    if most is None:
        return 0
    at = time.time()
    copies = sorted(_copies(shelves))
    total = sum(size for _, size, _, _ in copies)
    taken = 0
    for used_at, size, kind, digest in copies:
        if total <= most:
            break
        shelf = shelves[kind]
        if at - used_at < _IN_USE_S or backing.outbox.waits(kind, digest):
            continue
        stored = backing.facts(shelf.key(digest))
        if (stored is None or stored.size_bytes != size) and wanted(kind, {digest}):
            shelf.expect(digest)
            continue
        shelf.path(digest).unlink(missing_ok=True)
        total -= size
        taken += 1
    return taken


def _copies(shelves: Shelves) -> Iterable[tuple[float, int, Kind, str]]:
    """When each file on this machine was last used, its size, and which it is."""
    for kind, shelf in shelves.items():
        for digest in shelf.here():
            try:
                status = shelf.path(digest).stat()
            except FileNotFoundError:
                continue
            yield max(status.st_atime, status.st_mtime), status.st_size, kind, digest


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found about the files that records name."""

    named: int
    in_objects: int
    """Of these, how many the object store has."""
    waiting: tuple[str, ...]
    """Keys of those that are on this machine alone; they are sent next."""
    missing: tuple[str, ...]
    """Keys of those that are nowhere."""
    damaged: tuple[str, ...]
    """Keys of objects that do not have the content, or the size, that they should."""
    replaced: tuple[str, ...]
    """Of these, those that are whole on this machine; they are sent next."""
    unnamed: int
    """Objects that no record names: of removed campaigns, of uploads that nothing used, or of another store."""


@dataclass(frozen=True, slots=True)
class FetchReport:
    """How many files were missing on this machine, and how many came from the object store."""

    count: int
    missing: tuple[str, ...] = ()
    """Keys of those that are nowhere."""
    damaged: tuple[str, ...] = ()
    """Keys of those whose objects do not have the content that they should."""


def named(engine: Engine) -> dict[Kind, dict[str, int | None]]:
    """Kind → content hash of each file that records name → its size, where records know it."""
    with reading(engine) as session:
        samples = session.scalars(select(RunRow.samples).where(RunRow.samples.is_not(None)).distinct())
        by_kind: dict[Kind, dict[str, int | None]] = {"samples": {digest: None for digest in samples if digest}}
        rows = session.execute(select(ArtefactRow.sha256, ArtefactRow.size_bytes))
        # Uploads that became samples lie there, and there alone.
        by_kind["artefacts"] = {digest: size for digest, size in rows if digest not in by_kind["samples"]}
        left = select(ArtefactRow.sha256, ArtefactRow.size_bytes).join(
            JobArtefactRow, JobArtefactRow.sha256 == ArtefactRow.sha256
        )
        by_kind["artefacts"] |= {row.sha256: row.size_bytes for row in session.execute(left)}
    return by_kind


def wanted(session: Session, samples: ContentFiles, kind: Kind, digests: Collection[str]) -> set[str]:
    """Those of some files that records still name, so that their objects stay."""
    named_digests: set[str] = set()
    for chunk in parts_of(sorted(digests)):
        if kind == "samples":
            named_digests |= {
                sample_digest
                for sample_digest in session.scalars(select(RunRow.samples).where(RunRow.samples.in_(chunk)))
                if sample_digest
            }
            continue
        named_digests |= set(session.scalars(select(JobArtefactRow.sha256).where(JobArtefactRow.sha256.in_(chunk))))
        uploads = session.scalars(select(ArtefactRow.sha256).where(ArtefactRow.sha256.in_(chunk)))
        named_digests |= {digest for digest in uploads if not samples.path(digest).is_file()}
    return named_digests


def verify(engine: Engine, backing: Backing, shelves: Shelves, *, content: bool = False) -> VerifyReport:
    """Hold an object store against the records; what lies whole on this machine alone is sent next."""
    records = named(engine)
    waiting, missing, damaged, replaced = [], [], [], []
    there = unnamed = 0
    for kind in KINDS:
        shelf, listed = shelves[kind], _listed(backing, kind)
        for digest, size in records[kind].items():
            key = shelf.key(digest)
            stored_size = listed.pop(key, None)
            if stored_size is None and not shelf.path(digest).is_file():
                missing.append(key)
            elif stored_size is None:
                shelf.expect(digest)
                waiting.append(key)
            elif (size is not None and stored_size != size) or (content and backing.content_digest(key) != digest):
                damaged.append(key)
                if shelf.is_whole_here(digest):
                    # A damaged object may have the right size, by which it would be taken for one that was sent.
                    backing.delete([key])
                    shelf.expect(digest)
                    replaced.append(key)
            else:
                there += 1
        unnamed += len(listed)
    count = sum(len(files) for files in records.values())
    return VerifyReport(count, there, tuple(waiting), tuple(missing), tuple(damaged), tuple(replaced), unnamed)


def fetch_all(engine: Engine, shelves: Shelves, notify: Callable[[str], None]) -> FetchReport:
    """Bring every file that records name to this machine."""
    fetched, missing, damaged = 0, [], []
    for shelf, digest in _not_here(named(engine), shelves):
        notify(shelf.key(digest))
        try:
            if shelf.find(digest) is None:
                missing.append(shelf.key(digest))
            else:
                fetched += 1
        except StoreError as problem:
            if problem.problem.code != DAMAGED:
                raise
            damaged.append(shelf.key(digest))
    return FetchReport(fetched, tuple(missing), tuple(damaged))


def only_there(engine: Engine, shelves: Shelves) -> int:
    """How many files that records name are not on this machine."""
    return sum(1 for _ in _not_here(named(engine), shelves))


def _not_here(known: Mapping[Kind, Mapping[str, int | None]], shelves: Shelves) -> Iterator[tuple[ContentFiles, str]]:
    for kind, digests in known.items():
        yield from ((shelves[kind], digest) for digest in digests if not shelves[kind].path(digest).is_file())


def _listed(backing: Backing, kind: Kind) -> dict[str, int]:
    """Key of each object of a kind → its size."""
    return backing.attempted(lambda objects: {entry.key: entry.size_bytes for entry in objects.list(kind)})

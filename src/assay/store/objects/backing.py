"""The object store behind a store's folder: which one it is, whether it answers, and files fetched from it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from assay import files
from assay.errors import Problem, StoreError, UsageError
from assay.store.artefacts import ContentFiles
from assay.store.database import reading
from assay.store.objects.files import ObjectFacts, ObjectFiles, ObjectsAwayError, Place, open_objects, parse_place
from assay.store.objects.transfer import KINDS, Kind, Outbox, Shelves
from assay.store.tables import ArtefactRow, JobArtefactRow, RunRow

VARIABLE = "ASSAY_OBJECTS"
DAMAGED = "objects-damaged"
_FILE = "objects.json"
_SCHEMA = "assay.objects/1"
# Who asks for a hundred files of a store that is away need not wait for each.
_REST_S = 15.0
# What arrived damaged is fetched once more: the way may be to blame, and not the object.
_TRIES = 2
T = TypeVar("T")
# No database takes any number of values in one query.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """What a store's folder remembers about the object store behind it."""

    place: Place
    cache_bytes: int | None = None
    """How much the copies in the folder may take of what the object store has; as much as they like when None."""


class Backing:
    """One object store, opened when it is first needed; it may be used from several threads."""

    def __init__(
        self, folder: Path, settings: ObjectSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Name an object store."""
        self.settings = settings
        self.outbox = Outbox(folder / "outbox")
        self._monotonic = monotonic
        self._opening = threading.Lock()
        self._files: ObjectFiles | None = None
        self._away: tuple[float, Problem] | None = None
        """Until when it is not asked, and what it said or did not say."""

    @property
    def url(self) -> str:
        """Where the object store is."""
        return self.settings.place.url

    @property
    def rests(self) -> bool:
        """Whether the object store did not answer a moment ago, so that it is not asked now."""
        return self._away is not None and self._monotonic() < self._away[0]

    def asked(self, act: Callable[[ObjectFiles], T]) -> T:
        """Ask the object store for something.

        Raises:
            ObjectsAwayError: if it does not answer, or did not a moment ago.
            StoreError: if it refuses.
            UsageError: if what is needed to speak to it is not installed.
        """
        with self._opening:
            if self._away is not None:
                until, known = self._away
                if self._monotonic() < until:
                    raise ObjectsAwayError(known.message, at=known.at, try_=known.try_)
                # One asks again; whoever else comes meanwhile is told what is known, and does not wait with it.
                self._away = (self._monotonic() + _REST_S, known)
        try:
            found = act(self.open())
        except ObjectsAwayError as problem:
            self._away = (self._monotonic() + _REST_S, problem.problem)
            raise
        except (StoreError, FileNotFoundError):
            self._away = None  # it answered
            raise
        self._away = None
        return found

    def wake(self) -> None:
        """Ask the object store again at once, also if it was away a moment ago."""
        self._away = None

    def facts(self, key: str) -> ObjectFacts | None:
        """What the object store knows about an object; None when it has none."""
        return self.asked(lambda objects: objects.facts(key))

    def fetch(self, key: str, digest: str, path: Path) -> bool:
        """Bring an object to this machine, if it has the content that its name says.

        Returns:
            False when the object store does not have it.

        Raises:
            ObjectsAwayError: if it does not answer.
            StoreError: `objects-damaged` if the content is another, `disk` if there is no room here.
        """
        found = ""
        for _ in range(_TRIES):
            try:
                found = self.asked(lambda objects: _download(objects.get(key), digest, path))
            except FileNotFoundError:
                return False
            if found == digest:
                return True
        raise StoreError(
            f"an object is damaged: its content has the SHA-256 {found}",
            code=DAMAGED,
            at=f"{self.url} {key}",
            try_="restore it from a copy, or measure again",
        )

    def content_digest(self, key: str) -> str | None:
        """The SHA-256 of an object as it can be read now; None when there is none."""

        def read(objects: ObjectFiles) -> str | None:
            found = hashlib.sha256()
            try:
                for part in objects.get(key):
                    found.update(part)
            except FileNotFoundError:
                return None
            return found.hexdigest()

        return self.asked(read)

    def open(self) -> ObjectFiles:
        """The object store; nothing is asked of it yet.

        Raises:
            UsageError: if something that it needs is not installed or not set.
        """
        with self._opening:
            if self._files is None:
                self._files = open_objects(self.settings.place)
            return self._files


def _download(parts: Iterator[bytes], digest: str, path: Path) -> str:
    """Write content that has a digest to a file; return the digest that it has. Other content leaves nothing."""
    first = next(parts, b"")  # before anything is made here: it may not be there
    found = hashlib.sha256(first)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        partial = Path(name)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(first)
                for part in parts:
                    found.update(part)
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            if found.hexdigest() == digest:
                partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as problem:  # of this disk: an object store tells its own in other words
        raise _no_room(problem, path) from None
    return found.hexdigest()


def _no_room(problem: OSError, path: Path) -> StoreError:
    return StoreError(
        f"cannot write: {problem.strerror}",
        code="disk",
        at=str(path),
        try_="free some space or set another place with --store",
    )


# What a folder remembers


def remembered(folder: Path) -> ObjectSettings | None:
    """The object store that a store's folder remembers; None when it has none.

    Raises:
        StoreError: if the file cannot be read.
    """
    path = folder / _FILE
    try:
        told = json.loads(path.read_bytes())
        most = told.get("cache_bytes")
        return ObjectSettings(parse_place(str(told["url"])), None if most is None else int(most))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError) as problem:
        said = problem.problem.message if isinstance(problem, UsageError) else problem
        raise StoreError(
            f"cannot read where the object store is: {said}",
            code="objects-url",
            at=str(path),
            try_="repair the file, or delete it and run `assay objects use`",
        ) from None


def remember(folder: Path, settings: ObjectSettings) -> None:
    """Keep which object store stands behind a store's folder.

    Raises:
        StoreError: `disk` if it cannot be kept.
    """
    told = {"schema": _SCHEMA, "url": settings.place.url, "cache_bytes": settings.cache_bytes}
    try:
        files.write_whole(folder / _FILE, f"{json.dumps(told, indent=2)}\n".encode())
    except OSError as problem:
        raise _no_room(problem, folder / _FILE) from None


def forget(folder: Path) -> None:
    """Have the folder alone again."""
    (folder / _FILE).unlink(missing_ok=True)


def chosen(folder: Path, given: str | None, cache_bytes: int | None = None) -> tuple[ObjectSettings | None, bool]:
    """The object store behind a store's folder, and whether the folder does not remember it yet.

    Raises:
        UsageError: `objects-url` if that cannot be read, `objects-other` if the folder remembers another one.
    """
    known = remembered(folder)
    said = given or os.environ.get(VARIABLE)
    if said and known is None:
        return ObjectSettings(parse_place(said), cache_bytes), True
    if known is None:
        return None, False
    if said and parse_place(said) != known.place:
        moved = known.place.is_same_content(parse_place(said))
        raise UsageError(
            f"the files of this store are in {known.place.url}, not in {parse_place(said).url}",
            code="objects-other",
            at=str(folder),
            try_="`assay objects use` the new address, if the same bucket is there"
            if moved
            else "`assay objects fetch`, then `assay objects forget`; or use another --store",
        )
    if cache_bytes is not None and cache_bytes != known.cache_bytes:
        known = replace(known, cache_bytes=cache_bytes)
        remember(folder, known)
    return known, False


@dataclass(frozen=True, slots=True)
class Verified:
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
class Fetched:
    """What became of files that were not on this machine."""

    count: int
    missing: tuple[str, ...] = ()
    """Keys of those that are nowhere."""
    damaged: tuple[str, ...] = ()
    """Keys of those whose objects do not have the content that they should."""


def named(engine: Engine) -> dict[Kind, dict[str, int | None]]:
    """Kind → content hash of each file that records name → its size, where records know it."""
    with reading(engine) as session:
        samples = session.scalars(select(RunRow.samples).where(RunRow.samples.is_not(None)).distinct())
        found: dict[Kind, dict[str, int | None]] = {"samples": {digest: None for digest in samples if digest}}
        rows = session.execute(select(ArtefactRow.sha256, ArtefactRow.size_bytes))
        # Uploads that became samples lie there, and there alone.
        found["artefacts"] = {digest: size for digest, size in rows if digest not in found["samples"]}
        left = select(ArtefactRow.sha256, ArtefactRow.size_bytes).join(
            JobArtefactRow, JobArtefactRow.sha256 == ArtefactRow.sha256
        )
        found["artefacts"] |= {row.sha256: row.size_bytes for row in session.execute(left)}
    return found


def wanted(session: Session, samples: ContentFiles, kind: Kind, digests: Collection[str]) -> set[str]:
    """Those of some files that records still name, so that their objects stay."""
    found: set[str] = set()
    every = sorted(digests)
    for first in range(0, len(every), _AT_ONCE):
        some = every[first : first + _AT_ONCE]
        if kind == "samples":
            found |= {one for one in session.scalars(select(RunRow.samples).where(RunRow.samples.in_(some))) if one}
            continue
        found |= set(session.scalars(select(JobArtefactRow.sha256).where(JobArtefactRow.sha256.in_(some))))
        uploads = session.scalars(select(ArtefactRow.sha256).where(ArtefactRow.sha256.in_(some)))
        found |= {digest for digest in uploads if not samples.path(digest).is_file()}
    return found


def verify(engine: Engine, backing: Backing, shelves: Shelves, *, content: bool = False) -> Verified:
    """Hold an object store against the records; what lies whole on this machine alone is sent next.

    Raises:
        StoreError: if the object store is away or refuses.
    """
    known = named(engine)
    waiting, missing, damaged, replaced = [], [], [], []
    there = unnamed = 0
    for kind in KINDS:
        shelf, listed = shelves[kind], _listed(backing, kind)
        for digest, size in known[kind].items():
            key = shelf.key(digest)
            found = listed.pop(key, None)
            if found is None and not shelf.path(digest).is_file():
                missing.append(key)
            elif found is None:
                shelf.expect(digest)
                waiting.append(key)
            elif (size is not None and found != size) or (content and backing.content_digest(key) != digest):
                damaged.append(key)
                if shelf.is_whole_here(digest):
                    # A damaged object may have the right size, by which it would be taken for one that was sent.
                    backing.asked(partial(_delete, key=key))
                    shelf.expect(digest)
                    replaced.append(key)
            else:
                there += 1
        unnamed += len(listed)
    count = sum(len(files) for files in known.values())
    return Verified(count, there, tuple(waiting), tuple(missing), tuple(damaged), tuple(replaced), unnamed)


def fetch_all(engine: Engine, shelves: Shelves, tell: Callable[[str], None]) -> Fetched:
    """Bring every file that records name to this machine.

    Raises:
        StoreError: if the object store is away or refuses.
    """
    fetched, missing, damaged = 0, [], []
    for shelf, digest in _not_here(named(engine), shelves):
        tell(shelf.key(digest))
        try:
            found = shelf.find(digest)
        except StoreError as problem:
            if problem.problem.code != DAMAGED:
                raise
            damaged.append(shelf.key(digest))
            continue
        if found is None:
            missing.append(shelf.key(digest))
        else:
            fetched += 1
    return Fetched(fetched, tuple(missing), tuple(damaged))


def only_there(engine: Engine, shelves: Shelves) -> int:
    """How many files that records name are not on this machine."""
    return sum(1 for _ in _not_here(named(engine), shelves))


def _not_here(known: Mapping[Kind, Mapping[str, int | None]], shelves: Shelves) -> Iterator[tuple[ContentFiles, str]]:
    for kind, digests in known.items():
        yield from ((shelves[kind], digest) for digest in digests if not shelves[kind].path(digest).is_file())


def _delete(objects: ObjectFiles, key: str) -> None:
    objects.delete([key])


def _listed(backing: Backing, kind: Kind) -> dict[str, int]:
    """Key of each object of a kind → its size."""
    return backing.asked(lambda objects: {one.key: one.size_bytes for one in objects.list(kind)})

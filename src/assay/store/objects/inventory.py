"""Which files records name, and whether an object store still has all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from assay.errors import StoreError
from assay.store.artefacts import ContentFiles
from assay.store.database import reading
from assay.store.objects.backing import DAMAGED, KINDS, Backing, Kind
from assay.store.objects.files import ObjectFiles
from assay.store.objects.transfer import Shelves
from assay.store.tables import ArtefactRow, JobArtefactRow, RunRow

# No database takes any number of values in one query.
_AT_ONCE = 500


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


def verify(engine: Engine, backing: Backing, shelves: Shelves, *, content: bool = False) -> VerifyReport:
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
    return VerifyReport(count, there, tuple(waiting), tuple(missing), tuple(damaged), tuple(replaced), unnamed)


def fetch_all(engine: Engine, shelves: Shelves, tell: Callable[[str], None]) -> FetchReport:
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
    return FetchReport(fetched, tuple(missing), tuple(damaged))


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

"""The object store behind a store's folder: which one it is, whether it answers, what is fetched and what waits."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, get_args

from assay import files
from assay.errors import Problem, StoreError, UsageError
from assay.store.location import cannot_write
from assay.store.objects.files import ObjectFacts, ObjectFiles, ObjectPlace, ObjectsAwayError, open_objects, parse_place

Action = Literal["send", "delete"]
Kind = Literal["samples", "artefacts"]
KINDS: tuple[Kind, ...] = get_args(Kind)
VARIABLE = "ASSAY_OBJECTS"
DAMAGED = "objects-damaged"
_FILE = "objects.json"
_SCHEMA = "assay.objects/1"
# Who asks for a hundred files of a store that is away need not wait for each.
_REST_S = 15.0
# What arrived damaged is fetched once more: the way may be to blame, and not the object.
_TRIES = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing to do."""

    action: Action
    kind: Kind
    digest: str
    made_at: float
    """Seconds since 1970."""

    @property
    def age_s(self) -> float:
        """How long it has been waiting."""
        return time.time() - self.made_at


class Outbox:
    """A folder of marks. To send a file and to delete it exclude each other: the last word counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def to_send(self, kind: Kind, digest: str) -> None:
        """Note that a file has to go to the object store; done before the file is put in its place."""
        self._note("send", kind, digest, instead_of="delete")

    def to_delete(self, kind: Kind, digest: str) -> None:
        """Note that an object has to go; done after the file is gone."""
        self._note("delete", kind, digest, instead_of="send")

    def done(self, mark: Mark) -> None:
        self._path(mark.action, mark.kind, mark.digest).unlink(missing_ok=True)

    def waits(self, kind: Kind, digest: str) -> bool:
        """Whether a file has not been sent yet."""
        return self._path("send", kind, digest).exists()

    def marks(self, action: Action) -> tuple[Mark, ...]:
        """Everything of one kind of work, the oldest first."""
        marks = [mark for kind in KINDS for mark in self._marks(action, kind)]
        return tuple(sorted(marks, key=lambda mark: (mark.made_at, mark.digest)))

    def count(self, action: Action) -> int:
        """How much of one kind of work there is."""
        return sum(sum(1 for _ in self._names(action, kind)) for kind in KINDS)

    def _marks(self, action: Action, kind: Kind) -> Iterator[Mark]:
        for path in self._names(action, kind):
            try:
                yield Mark(action, kind, path.name, path.stat().st_mtime)
            except FileNotFoundError:  # another process was quicker
                continue

    def _names(self, action: Action, kind: Kind) -> Iterator[Path]:
        try:
            yield from (self.folder / action / kind).iterdir()
        except FileNotFoundError:
            return

    def _note(self, action: Action, kind: Kind, digest: str, *, instead_of: Action) -> None:
        path = self._path(action, kind, digest)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
        except OSError as problem:
            raise cannot_write(problem, path) from None
        self._path(instead_of, kind, digest).unlink(missing_ok=True)

    def _path(self, action: Action, kind: Kind, digest: str) -> Path:
        return self.folder / action / kind / digest


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """What a store's folder remembers about the object store behind it."""

    place: ObjectPlace
    cache_bytes: int | None = None
    """How much the copies in the folder may take of what the object store has; as much as they like when None."""


class Backing:
    """One object store, opened when it is first needed; it may be used from several threads."""

    def __init__(
        self, folder: Path, settings: ObjectSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self.outbox = Outbox(folder / "outbox")
        self._monotonic = monotonic
        self._opening = threading.Lock()
        self._files: ObjectFiles | None = None
        self._away: tuple[float, Problem] | None = None
        """Until when it is not asked, and what it said or did not say."""

    @property
    def url(self) -> str:
        return self.settings.place.url

    @property
    def rests(self) -> bool:
        """Whether the object store did not answer a moment ago, so that it is not asked now."""
        return self._away is not None and self._monotonic() < self._away[0]

    def attempted(self, act: Callable[[ObjectFiles], T]) -> T:
        with self._opening:
            if self._away is not None:
                until, last_failure = self._away
                if self._monotonic() < until:
                    raise ObjectsAwayError(last_failure.message, at=last_failure.at, try_=last_failure.try_)
                # One request probes again; the others get the known failure and do not wait.
                self._away = (self._monotonic() + _REST_S, last_failure)
        try:
            answer = act(self.open())
        except ObjectsAwayError as problem:
            self._away = (self._monotonic() + _REST_S, problem.problem)
            raise
        except (StoreError, FileNotFoundError):
            self._away = None  # it answered
            raise
        self._away = None
        return answer

    def wake(self) -> None:
        """Let the next request probe the object store, also if it was away a moment ago."""
        self._away = None

    def facts(self, key: str) -> ObjectFacts | None:
        """What the object store knows about an object; None when it has none."""
        return self.attempted(lambda objects: objects.facts(key))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; those that are not there are gone already."""
        self.attempted(lambda objects: objects.delete(keys))

    def fetch(self, key: str, digest: str, path: Path) -> bool:
        actual = ""
        for _ in range(_TRIES):
            try:
                actual = self.attempted(lambda objects: _download(objects.get(key), digest, path))
            except FileNotFoundError:
                return False
            if actual == digest:
                return True
        raise StoreError(
            f"an object is damaged: its content has the SHA-256 {actual}",
            code=DAMAGED,
            at=f"{self.url} {key}",
            try_="restore it from a copy, or measure again",
        )

    def content_digest(self, key: str) -> str | None:
        """The SHA-256 of an object as it can be read now; None when there is none."""

        def read(objects: ObjectFiles) -> str:
            content = hashlib.sha256()
            for part in objects.get(key):
                content.update(part)
            return content.hexdigest()

        try:
            return self.attempted(read)
        except FileNotFoundError:
            return None

    def open(self) -> ObjectFiles:
        """The object store; nothing is asked of it yet."""
        with self._opening:
            if self._files is None:
                self._files = open_objects(self.settings.place)
            return self._files


def _download(parts: Iterator[bytes], digest: str, path: Path) -> str:
    """Write content that has a digest to a file; return the digest that it has. Other content leaves nothing."""
    first = next(parts, b"")  # before anything is made here: it may not be there
    hasher = hashlib.sha256(first)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        partial = Path(name)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(first)
                for part in parts:
                    hasher.update(part)
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            if hasher.hexdigest() == digest:
                partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as problem:  # of this disk: an object store tells its own in other words
        raise cannot_write(problem, path) from None
    return hasher.hexdigest()


# What a folder remembers


def remembered(folder: Path) -> ObjectSettings | None:
    path = folder / _FILE
    try:
        document = json.loads(path.read_bytes())
        most = document.get("cache_bytes")
        return ObjectSettings(parse_place(str(document["url"])), None if most is None else int(most))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError) as problem:
        reason = problem.problem.message if isinstance(problem, UsageError) else problem
        raise StoreError(
            f"cannot read where the object store is: {reason}",
            code="objects-url",
            at=str(path),
            try_="repair the file, or delete it and run `assay objects use`",
        ) from None


def remember(folder: Path, settings: ObjectSettings) -> None:
    document = {"schema": _SCHEMA, "url": settings.place.url, "cache_bytes": settings.cache_bytes}
    try:
        files.write_whole(folder / _FILE, f"{json.dumps(document, indent=2)}\n".encode())
    except OSError as problem:
        raise cannot_write(problem, folder / _FILE) from None


def forget(folder: Path) -> None:
    """Have the folder alone again."""
    (folder / _FILE).unlink(missing_ok=True)


def chosen(folder: Path, url: str | None, cache_bytes: int | None = None) -> tuple[ObjectSettings | None, bool]:
    """The object store behind a store's folder, and whether the folder does not remember it yet."""
    previous = remembered(folder)
    chosen_url = url or os.environ.get(VARIABLE)
    place = parse_place(chosen_url) if chosen_url else None
    if previous is None:
        return (ObjectSettings(place, cache_bytes), True) if place else (None, False)
    if place and place != previous.place:
        moved = previous.place.is_same_content(place)
        raise UsageError(
            f"the files of this store are in {previous.place.url}, not in {place.url}",
            code="objects-other",
            at=str(folder),
            try_="`assay objects use` the new address, if the same bucket is there"
            if moved
            else "`assay objects fetch`, then `assay objects forget`; or use another --store",
        )
    if cache_bytes is not None and cache_bytes != previous.cache_bytes:
        previous = replace(previous, cache_bytes=cache_bytes)
        remember(folder, previous)
    return previous, False

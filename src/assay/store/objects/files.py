"""Object stores: what is asked of one, and the plainest of them, a folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from assay.errors import StoreError
from assay.files import make_folder, move_whole
from assay.store.objects.places import Place

_BLOCK = 1 << 20


class ObjectsAwayError(StoreError):
    """The object store does not answer now; what was asked may be asked again later."""

    default_code = "objects-away"


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """An object, without its content."""

    key: str
    size_bytes: int
    modified_at: float


class ObjectFiles(Protocol):
    """Whole files under keys.

    Every method raises `ObjectsAwayError` where the store cannot be reached, and another `StoreError` where it refuses.
    """

    place: Place

    def put(self, key: str, source: Path) -> None:
        """Keep a file, in place of what lay under its key; it is there whole or not at all."""
        ...

    def get(self, key: str) -> Iterator[bytes]:
        """Read an object in parts; raises FileNotFoundError if there is none."""
        ...

    def facts(self, key: str) -> ObjectFacts | None:
        """What is known about an object; None when there is none."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that are not there are gone already."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectFacts]:
        """Every object whose key begins with the segments of a prefix."""
        ...


def open_objects(place: Place) -> ObjectFiles:
    """Open an object store; nothing is asked of it yet.

    Raises:
        UsageError: `missing-s3` if what it needs is not installed.
    """
    if place.scheme == "file":
        return FolderObjects(place)
    from assay.store.objects.s3 import S3Objects

    return S3Objects(place)


class FolderObjects:
    """An object store that is a folder, such as one that several machines mount.

    The folder must be there: where it is not, its file system is not mounted, and nothing may be written in its place.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._root = Path(place.prefix)

    def put(self, key: str, source: Path) -> None:
        """Copy a file in, and name it when it is whole."""
        with self._told():
            target = self._root / key
            make_folder(target.parent)
            fd, name = tempfile.mkstemp(dir=target.parent, prefix=".part-")
            partial = Path(name)
            try:
                with os.fdopen(fd, "wb") as file, source.open("rb") as content:
                    shutil.copyfileobj(content, file, _BLOCK)
                    file.flush()
                    os.fsync(file.fileno())
                move_whole(partial, target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise

    def get(self, key: str) -> Iterator[bytes]:
        """Read a file in parts."""
        path = self._root / key
        with self._told():
            if not path.is_file():
                raise FileNotFoundError(key)
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    yield block

    def facts(self, key: str) -> ObjectFacts | None:
        """What the file system knows about a file."""
        with self._told():
            path = self._root / key
            return _facts(key, path) if path.is_file() else None

    def delete(self, keys: Iterable[str]) -> None:
        with self._told():
            for key in keys:
                (self._root / key).unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[ObjectFacts]:
        """Walk through a folder; what is still being written is left out."""
        with self._told():
            for path in sorted((self._root / prefix).rglob("*")):
                if path.is_file() and not path.name.startswith(".part-"):
                    yield _facts(path.relative_to(self._root).as_posix(), path)

    @contextmanager
    def _told(self) -> Iterator[None]:
        if not self._root.is_dir():
            raise ObjectsAwayError(f"the folder {self._root} is not there", try_="mount it, or make it")
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise ObjectsAwayError(f"{self._root} cannot be used: {problem.strerror}", at=str(self._root)) from None


def _facts(key: str, path: Path) -> ObjectFacts:
    found = path.stat()
    return ObjectFacts(key, found.st_size, found.st_mtime)

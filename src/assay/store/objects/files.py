"""Object stores: how one is named (`s3://bucket/prefix` or a path), what is asked of it, and the plainest, a folder."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from assay.errors import StoreError, UsageError
from assay.files import make_folder, move_whole

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
# What every S3-compatible server takes as it is; anything else is coded by one and refused by another.
_SEGMENT = re.compile(r"[A-Za-z0-9_.=-]+")
_ADDRESS = re.compile(r"[A-Za-z0-9:/._\[\]-]+")
_OPTIONS = ("endpoint", "region")
_HOW = "write s3://bucket/prefix, or file:///folder"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Where an object store is; it never holds a secret."""

    scheme: Literal["s3", "file"]
    bucket: str
    """Empty for a folder."""
    prefix: str
    """What the keys of objects begin with, without slashes around it; for a folder, its path."""
    endpoint: str = ""
    """Address of a server that is not Amazon's; empty where the environment says it."""
    region: str = ""

    def is_same_content(self, other: ObjectPlace) -> bool:
        """Whether another place differs in the way there alone: its server has moved, or has a second name."""
        return (self.scheme, self.bucket, self.prefix) == (other.scheme, other.bucket, other.prefix)

    @property
    def url(self) -> str:
        """The place in one line, as `parse_place` reads it."""
        if self.scheme == "file":
            return f"file://{quote(self.prefix)}"
        parameters = {"endpoint": self.endpoint, "region": self.region}
        options = urlencode({name: value for name, value in parameters.items() if value}, safe=":/")
        path = f"/{self.prefix}" if self.prefix else ""
        return f"s3://{self.bucket}{path}{'?' if options else ''}{options}"


def parse_place(text: str) -> ObjectPlace:
    """Read where an object store is: `s3://bucket/prefix`, `file:///folder` or the path of a folder."""
    if text.startswith(("s3://", "file://")):
        try:
            parts = urlsplit(text)
        except ValueError:
            raise _wrong("this is not a URL") from None
        if parts.scheme == "s3":
            return _bucket(parts)
        if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
            raise _wrong(f"{text!r} names no folder of this machine")
        return ObjectPlace("file", "", str(Path(unquote(parts.path)).absolute()))
    if text.startswith(("/", "~", ".")):
        try:
            return ObjectPlace("file", "", str(Path(text).expanduser().absolute()))
        except RuntimeError:  # a user without a home here
            raise _wrong(f"{text!r} names no folder of this machine") from None
    scheme, colon, _ = text.partition("://")
    if colon:
        raise _wrong(f"object stores of the kind {scheme!r} are not supported")
    named = "this" if "@" in text else repr(text)  # a password would stand there
    raise _wrong(f"{named} names no object store")


def _bucket(parts: SplitResult) -> ObjectPlace:
    if "@" in parts.netloc:
        raise _wrong(
            "a name and a password in the URL of an object store would be kept with it",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead",
        )
    if not _BUCKET.fullmatch(parts.netloc):
        raise _wrong("this names no bucket: its name has letters, digits and - . in it, and nothing else")
    segments = [part for part in parts.path.split("/") if part]
    if bad := [part for part in segments if part in (".", "..") or not _SEGMENT.fullmatch(part)]:
        raise _wrong(f"the prefix has {bad[0]!r} in it", "use letters, digits and - _ . between the slashes")
    options = parse_qsl(parts.query, keep_blank_values=True)
    named = dict(options)
    unknown = [name for name in named if name not in _OPTIONS]
    if unknown or parts.fragment:
        raise _wrong(
            "the URL of an object store has other options than it can have", f"options are {' and '.join(_OPTIONS)}"
        )
    if len(named) < len(options):
        raise _wrong("an option of the object store is given twice")
    region = named.get("region", "")
    if region and not re.fullmatch(r"[A-Za-z0-9-]+", region):
        raise _wrong(f"{region!r} is no region")
    endpoint = named.get("endpoint", "")
    if endpoint and not _is_server(endpoint):
        raise _wrong("endpoint is not the address of a server", "write endpoint=https://host:port")
    return ObjectPlace("s3", parts.netloc, "/".join(segments), endpoint.rstrip("/"), region)


def _is_server(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    fits = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
    return fits and _ADDRESS.fullmatch(text) is not None


def _wrong(message: str, try_: str = _HOW) -> UsageError:
    return UsageError(message, code="objects-url", try_=try_)


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

    place: ObjectPlace

    def put(self, key: str, source: Path) -> None:
        """Keep a file, in place of what lay under its key; it is there whole or not at all."""
        ...

    def get(self, key: str) -> Iterator[bytes]: ...

    def facts(self, key: str) -> ObjectFacts | None: ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that are not there are gone already."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectFacts]:
        """Every object whose key begins with the segments of a prefix."""
        ...


def open_objects(place: ObjectPlace) -> ObjectFiles:
    """Open an object store; nothing is asked of it yet."""
    if place.scheme == "file":
        return FolderObjects(place)
    from assay.store.objects.s3 import S3Objects

    return S3Objects(place)


class FolderObjects:
    """An object store that is a folder, such as one that several machines mount.

    The folder must be there: where it is not, its file system is not mounted, and nothing may be written in its place.
    """

    def __init__(self, place: ObjectPlace) -> None:
        self.place = place
        self._root = Path(place.prefix)

    def put(self, key: str, source: Path) -> None:
        with self._store_errors():
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
        path = self._root / key
        with self._store_errors():
            if not path.is_file():
                raise FileNotFoundError(key)
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    yield block

    def facts(self, key: str) -> ObjectFacts | None:
        with self._store_errors():
            path = self._root / key
            return _facts(key, path) if path.is_file() else None

    def delete(self, keys: Iterable[str]) -> None:
        with self._store_errors():
            for key in keys:
                (self._root / key).unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[ObjectFacts]:
        with self._store_errors():
            for path in sorted((self._root / prefix).rglob("*")):
                if path.is_file() and not path.name.startswith(".part-"):
                    yield _facts(path.relative_to(self._root).as_posix(), path)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        if not self._root.is_dir():
            raise ObjectsAwayError(f"the folder {self._root} is not there", try_="mount it, or make it")
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise ObjectsAwayError(f"{self._root} cannot be used: {problem.strerror}", at=str(self._root)) from None


def _facts(key: str, path: Path) -> ObjectFacts:
    status = path.stat()
    return ObjectFacts(key, status.st_size, status.st_mtime)

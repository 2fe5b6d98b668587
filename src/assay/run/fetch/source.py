"""A source becomes files of this machine: from a path, a URL or a bucket, with the checksum that the file gives.

Files of an S3-compatible bucket are kept in the cache until the bucket has others. Credentials and endpoint come from
the environment, as other tools read it (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …); without credentials the bucket is
asked as anybody may ask it.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from assay.errors import MeasureError, first_line
from assay.files import file_digest
from assay.run.models.sources import CacheEntry, CacheNotes, Validator
from assay.spec.references import resolve_secrets
from assay.spec.target import Fetch
from assay.units import show_bytes

if TYPE_CHECKING:
    from obstore.store import S3Store
    from pydantic import JsonValue

Progress = Callable[[int, int | None], None]
# Beside the models, which have rules of their own.
FOLDER = "files"


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """One file or folder that is here, and where a program looks for it."""

    src: str
    """As the file has it; no secret is in it."""
    path: str
    """From `/`."""
    here: Path
    sha256: str = ""
    """Empty for a folder."""
    size_bytes: int | None = None
    checked: str = ""
    """Which digest of the file it was checked against: `sha256` or `md5`; empty where it gives none."""
    note: str = ""

    def facts(self) -> dict[str, JsonValue]:
        """What is kept with a result."""
        size: dict[str, JsonValue] = {"size_bytes": self.size_bytes} if self.sha256 else {}
        note: dict[str, JsonValue] = {"note": self.note} if self.note else {}
        checked = self.checked or None
        return {"src": self.src, "path": self.path, "sha256": self.sha256 or None, **size, "checked": checked, **note}


def fetch(
    wanted: Fetch, at: str, base: Path, cache: Path, on_progress: Progress | None = None
) -> tuple[FetchedFile, ...]:
    """Have what a program needs on this machine; what was fetched before and is still right is not fetched again.

    Returns:
        One entry for a file or a local folder, one for each object below a prefix of a bucket.
    """
    try:
        if wanted.is_local:
            return (_local(wanted, base),)
        if wanted.src.lower().startswith("s3://"):
            objects = from_bucket(wanted, cache / FOLDER, on_progress)
            return tuple(_checked(wanted, FetchedFile(src, _path(wanted, below), file)) for src, below, file in objects)
        return (_from_url(wanted, cache, on_progress),)
    except MeasureError as failure:
        raise _at(failure, at) from None


def is_here(wanted: Fetch, base: Path, cache: Path) -> bool:
    """Whether something is available without a network."""
    if wanted.is_local:
        return (base / Path(wanted.src).expanduser()).exists()
    if wanted.src.lower().startswith("s3://"):
        return entry_of(wanted.src, cache / FOLDER).notes() is not None
    from assay.run.models.download import Fetcher

    return Fetcher(cache / FOLDER).known(wanted.src, wanted.sha256) is not None


def _local(wanted: Fetch, base: Path) -> FetchedFile:
    here = (base / Path(wanted.src).expanduser()).absolute()
    if not here.exists():
        raise MeasureError(
            f"{str(here)!r} is not there", code="fetch", try_="src is relative to the benchmark file's folder"
        )
    fetched = FetchedFile(wanted.src, _path(wanted, here.name), here)
    if here.is_file():
        return _checked(wanted, fetched)
    if wanted.sha256 or wanted.md5:
        raise MeasureError(
            f"{str(here)!r} is a folder, which has no digest",
            code="checksum",
            try_="remove sha256 and md5, or name a file",
        )
    return replace(fetched, note="a folder has no checksum")


def _from_url(wanted: Fetch, cache: Path, on_progress: Progress | None) -> FetchedFile:
    from assay.run.models.download import Fetcher, shown

    fetcher = Fetcher(cache / FOLDER, wanted.headers, wanted.max_size, on_progress)
    name = unquote(urlsplit(wanted.src).path).rpartition("/")[2] or "index"
    # A file that is here and has the digest is used without asking the server: nodes of clusters reach no network.
    cached = fetcher.known(wanted.src, wanted.sha256) if wanted.sha256 or wanted.md5 else None
    if cached is not None and _differing(wanted, cached) is None:
        return _checked(wanted, FetchedFile(shown(wanted.src), _path(wanted, name), cached))
    got = fetcher.fetch(wanted.src, wanted.sha256)
    return _checked(wanted, FetchedFile(shown(wanted.src), _path(wanted, name), got.path, note=got.note))


def _path(wanted: Fetch, name: str) -> str:
    """Where a file goes: the path itself, or its own name below it where the path is a folder."""
    return posixpath.join(wanted.path, name) if wanted.path.endswith("/") else wanted.path


def _checked(wanted: Fetch, fetched: FetchedFile) -> FetchedFile:
    if (difference := _differing(wanted, fetched.here)) is not None:
        name, expected, actual = difference
        raise MeasureError(
            f"{fetched.src} has {name} {actual}, but {expected} was asked for",
            code="checksum",
            try_="check which file is meant; if the new one is right, put its digest into the file",
        )
    checked = "sha256" if wanted.sha256 else "md5" if wanted.md5 else ""
    return replace(fetched, sha256=file_digest(fetched.here), size_bytes=fetched.here.stat().st_size, checked=checked)


def _differing(wanted: Fetch, file: Path) -> tuple[str, str, str] | None:
    """Name of the digest that differs, what it should be and what it is; None where all are right."""
    for name, expected in (("SHA-256", wanted.sha256), ("MD5", wanted.md5)):
        if expected is not None:
            if name == "SHA-256":
                digest = file_digest(file)
            else:
                with file.open("rb") as content:
                    digest = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            if digest != expected:
                return name, expected, digest
    return None


def _at(failure: MeasureError, at: str) -> MeasureError:
    """The failure at the place of the file that asked; messages about keys of a model name the keys of this file."""
    problem = failure.problem
    message = problem.message.replace("target.sha256 is", "the digest asked for is").replace("of the model", "of it")
    try_ = problem.try_.replace("target.headers", f"{at}.headers").replace("target.sha256", f"{at}.sha256")
    return MeasureError(message, code=problem.code, at=at, try_=try_)


_READ = 1 << 20
_CONNECT, _REQUEST = timedelta(seconds=10), timedelta(minutes=30)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# One of these means credentials; a machine without any would ask for a role that it may not have, and wait.
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
             "AWS_CONTAINER_CREDENTIALS_FULL_URI")  # fmt: skip
MAX_OBJECTS = 10_000


@dataclass(frozen=True, slots=True)
class _Object:
    """What a bucket knows about one file."""

    key: str
    size: int
    etag: str | None


def from_bucket(wanted: Fetch, folder: Path, on_progress: Progress | None = None) -> Iterator[tuple[str, str, Path]]:
    """Have an object, or every object below a prefix.

    Yields:
        The URL of an object, its name below the prefix, and the file.
    """
    bucket, _, key = resolve_secrets(wanted.src)[len("s3://") :].partition("/")
    store = _opened(bucket)
    with _explained(wanted.src):
        if not (objects := list(_objects(store, key))):
            raise _refused(f"there is nothing below {wanted.src}", "check the prefix")
        for s3_object in objects:
            url = f"s3://{bucket}/{s3_object.key}"
            if s3_object.size > wanted.max_size:
                raise _refused(
                    f"{url} has {show_bytes(s3_object.size)}; max_size is {show_bytes(wanted.max_size)}",
                    "raise max_size",
                )
            below = s3_object.key[len(key) :] if key.endswith("/") or not key else PurePosixPath(s3_object.key).name
            yield url, below, _fetched(store, s3_object, url, folder, on_progress)


def entry_of(url: str, folder: Path) -> CacheEntry:
    """Where the file of an object is kept."""
    return CacheEntry(folder / hashlib.sha256(url.encode()).hexdigest()[:24], PurePosixPath(url).name)


def _opened(bucket: str) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError:
        raise MeasureError(
            "files of a bucket need the package obstore",
            code="fetch",
            try_="pip install 'assay-bench[s3]', or fetch it by an https URL",
        ) from None
    endpoint = next((value for name in _ENDPOINTS if (value := os.environ.get(name))), "")
    config: Any = {"endpoint": endpoint} if endpoint else {}
    if not any(os.environ.get(name) for name in _CREDENTIALS):
        config["skip_signature"] = True
    client: Any = {"connect_timeout": _CONNECT, "timeout": _REQUEST, "allow_http": endpoint.startswith("http://")}
    with _explained(f"s3://{bucket}"):
        return S3Store(bucket, config=config, client_options=client)


def _objects(store: S3Store, prefix: str) -> Iterator[_Object]:
    """The object of that name, or all below a name that ends with `/`."""
    import obstore

    if prefix and not prefix.endswith("/"):
        yield _object(obstore.head(store, prefix))
        return
    count = 0
    for page in obstore.list(store, prefix.rstrip("/") or None):
        for meta in page:
            if not str(meta["path"]).endswith("/"):  # what some tools write to show an empty folder
                count += 1
                if count > MAX_OBJECTS:
                    raise _refused(f"there are more than {MAX_OBJECTS:,} objects below {prefix}", "pack them into one")
                yield _object(meta)


def _object(meta: Any) -> _Object:  # noqa: ANN401  (a mapping of the library)
    etag = meta.get("e_tag")
    return _Object(str(meta["path"]), int(meta["size"]), None if etag is None else str(etag))


def _fetched(store: S3Store, item: _Object, url: str, folder: Path, on_progress: Progress | None) -> Path:
    """The file of an object, from the cache where that has the same version of it."""
    import obstore

    entry = entry_of(url, folder)
    with entry.locked():
        notes = entry.notes()
        if notes is not None and item.etag and notes.etag == item.etag and file_digest(entry.file) == notes.sha256:
            return entry.file
        entry.begin(Validator(item.etag))
        digest, size = hashlib.sha256(), 0
        with entry.part.open("ab") as file:
            for part in obstore.get(store, item.key).stream(min_chunk_size=_READ):
                chunk = bytes(part)
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                if on_progress is not None:
                    on_progress(size, item.size)
        if size != item.size:
            entry.drop_part()
            raise _refused(f"{url} arrived with {size} of {item.size} bytes", "try again")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry.keep(CacheNotes(url, digest.hexdigest(), size, now, item.etag))
        return entry.file


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Tell errors of the library and of the disk in our words."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError:
        raise _refused(f"{url} is not there", "check the bucket, the key and the endpoint") from None
    except (PermissionDeniedError, UnauthenticatedError) as problem:
        raise _refused(
            f"{url} is not for us: {first_line(problem)[:300]}",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or make it public",
        ) from None
    except (BaseError, NotImplementedError, ValueError) as problem:
        raise _refused(
            f"{url} cannot be fetched: {first_line(problem)[:300]}",
            "check the network, AWS_ENDPOINT_URL, AWS_REGION and AWS_ACCESS_KEY_ID",
        ) from None
    except OSError as problem:
        raise _refused(f"{url} cannot be kept: {problem.strerror or problem}", "free some space") from None


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="fetch", try_=try_)

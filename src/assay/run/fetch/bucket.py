"""Files of an S3-compatible bucket, kept in the cache until the bucket has others.

Credentials and endpoint come from the environment, as other tools read it (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …);
without credentials the bucket is asked as anybody may ask it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from assay.errors import MeasureError
from assay.run.models.cache import CacheEntry, CacheNotes, Validator, file_digest
from assay.spec.fetching import Fetch
from assay.spec.secrets import resolve_secrets
from assay.units import show_bytes

if TYPE_CHECKING:
    from obstore.store import S3Store

Progress = Callable[[int, int | None], None]

_READ = 1 << 20
_CONNECT, _REQUEST = timedelta(seconds=10), timedelta(minutes=30)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Whoever has one of these is somebody; a machine without any would ask for a role that it may not have, and wait.
_SOMEBODY = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
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

    Raises:
        MeasureError: if it cannot be had.
    """
    bucket, _, key = resolve_secrets(wanted.src)[len("s3://") :].partition("/")
    store = _opened(bucket)
    with _told(wanted.src):
        found = list(_below(store, key)) if not key or key.endswith("/") else [_one(store, key)]
        if not found:
            raise _refused(f"there is nothing below {wanted.src}", "check the prefix")
        for one in found:
            url = f"s3://{bucket}/{one.key}"
            if one.size > wanted.max_size:
                raise _refused(
                    f"{url} has {show_bytes(one.size)}; max_size is {show_bytes(wanted.max_size)}", "raise max_size"
                )
            below = one.key[len(key) :] if key.endswith("/") or not key else PurePosixPath(one.key).name
            yield url, below, _fetched(store, one, url, folder, on_progress)


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
    endpoint = next((found for name in _ENDPOINTS if (found := os.environ.get(name))), "")
    config: Any = {"endpoint": endpoint} if endpoint else {}
    if not any(os.environ.get(name) for name in _SOMEBODY):
        config["skip_signature"] = True
    client: Any = {"connect_timeout": _CONNECT, "timeout": _REQUEST, "allow_http": endpoint.startswith("http://")}
    with _told(f"s3://{bucket}"):
        return S3Store(bucket, config=config, client_options=client)


def _one(store: S3Store, key: str) -> _Object:
    import obstore

    return _object(obstore.head(store, key))


def _below(store: S3Store, prefix: str) -> Iterator[_Object]:
    import obstore

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


def _fetched(store: S3Store, one: _Object, url: str, folder: Path, on_progress: Progress | None) -> Path:
    """The file of an object, from the cache where that has the same version of it."""
    import obstore

    entry = entry_of(url, folder)
    with entry.locked():
        known = entry.notes()
        if known is not None and one.etag and known.etag == one.etag and file_digest(entry.file) == known.sha256:
            return entry.file
        entry.begin(Validator(one.etag))
        digest, size = hashlib.sha256(), 0
        with entry.part.open("ab") as file:
            for part in obstore.get(store, one.key).stream(min_chunk_size=_READ):
                chunk = bytes(part)
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                if on_progress is not None:
                    on_progress(size, one.size)
        if size != one.size:
            entry.drop_part()
            raise _refused(f"{url} arrived with {size} of {one.size} bytes", "try again")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry.keep(CacheNotes(url, digest.hexdigest(), size, now, one.etag))
        return entry.file


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Tell errors of the library and of the disk in our words."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError:
        raise _refused(f"{url} is not there", "check the bucket, the key and the endpoint") from None
    except (PermissionDeniedError, UnauthenticatedError) as problem:
        raise _refused(
            f"{url} is not for us: {_first_line(problem)}",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or make it public",
        ) from None
    except (BaseError, NotImplementedError, ValueError) as problem:
        raise _refused(
            f"{url} cannot be fetched: {_first_line(problem)}",
            "check the network, AWS_ENDPOINT_URL, AWS_REGION and AWS_ACCESS_KEY_ID",
        ) from None
    except OSError as problem:
        raise _refused(f"{url} cannot be kept: {problem.strerror or problem}", "free some space") from None


def _first_line(problem: BaseException) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)[:300]


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="fetch", try_=try_)

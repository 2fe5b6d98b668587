"""A source becomes files of this machine: from a path, a URL or a bucket, with the checksum that the file gives."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from assay.errors import MeasureError
from assay.run.models.cache import file_digest
from assay.spec.fetching import Fetch

if TYPE_CHECKING:
    from pydantic import JsonValue

Progress = Callable[[int, int | None], None]
# Beside the models, which have rules of their own.
FOLDER = "files"


@dataclass(frozen=True, slots=True)
class Fetched:
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
        told: dict[str, JsonValue] = {"src": self.src, "path": self.path}
        told |= {"sha256": self.sha256, "size_bytes": self.size_bytes} if self.sha256 else {"sha256": None}
        told["checked"] = self.checked or None
        return {**told, "note": self.note} if self.note else told


def fetch(wanted: Fetch, at: str, base: Path, cache: Path, on_progress: Progress | None = None) -> tuple[Fetched, ...]:
    """Have what a program needs on this machine; what was fetched before and is still right is not fetched again.

    Returns:
        One entry for a file or a local folder, one for each object below a prefix of a bucket.

    Raises:
        MeasureError: if it cannot be had, or is another file than its digest says.
    """
    try:
        if wanted.is_local:
            return (_local(wanted, base),)
        if wanted.src.lower().startswith("s3://"):
            from assay.run.fetch.bucket import from_bucket

            objects = from_bucket(wanted, cache / FOLDER, on_progress)
            return tuple(_checked(wanted, Fetched(src, _path(wanted, below), file)) for src, below, file in objects)
        return (_from_url(wanted, cache, on_progress),)
    except MeasureError as failure:
        raise _at(failure, at) from None


def is_here(wanted: Fetch, base: Path, cache: Path) -> bool:
    """Whether something is at hand without a network."""
    if wanted.is_local:
        return (base / Path(wanted.src).expanduser()).exists()
    if wanted.src.lower().startswith("s3://"):
        from assay.run.fetch.bucket import entry_of

        return entry_of(wanted.src, cache / FOLDER).notes() is not None
    from assay.run.models.download import Fetcher

    return Fetcher(cache / FOLDER).known(wanted.src, wanted.sha256) is not None


def _local(wanted: Fetch, base: Path) -> Fetched:
    here = (base / Path(wanted.src).expanduser()).absolute()
    if not here.exists():
        raise MeasureError(
            f"{str(here)!r} is not there", code="fetch", try_="src is relative to the benchmark file's folder"
        )
    had = Fetched(wanted.src, _path(wanted, here.name), here)
    if here.is_file():
        return _checked(wanted, had)
    if wanted.sha256 or wanted.md5:
        raise MeasureError(
            f"{str(here)!r} is a folder, which has no digest",
            code="checksum",
            try_="remove sha256 and md5, or name a file",
        )
    return replace(had, note="a folder has no checksum")


def _from_url(wanted: Fetch, cache: Path, on_progress: Progress | None) -> Fetched:
    from assay.run.models.download import Fetcher, shown

    fetcher = Fetcher(cache / FOLDER, wanted.headers, wanted.max_size, on_progress)
    name = unquote(urlsplit(wanted.src).path).rpartition("/")[2] or "index"
    # A file that is here and has the digest needs nobody to be asked: nodes of clusters reach no network.
    known = fetcher.known(wanted.src, wanted.sha256) if wanted.sha256 or wanted.md5 else None
    if known is not None and _differing(wanted, known) is None:
        return _checked(wanted, Fetched(shown(wanted.src), _path(wanted, name), known))
    got = fetcher.fetch(wanted.src, wanted.sha256)
    return _checked(wanted, Fetched(shown(wanted.src), _path(wanted, name), got.path, note=got.note))


def _path(wanted: Fetch, name: str) -> str:
    """Where a file goes: the path itself, or its own name below it where the path is a folder."""
    return posixpath.join(wanted.path, name) if wanted.path.endswith("/") else wanted.path


def _checked(wanted: Fetch, had: Fetched) -> Fetched:
    if (wrong := _differing(wanted, had.here)) is not None:
        name, expected, found = wrong
        raise MeasureError(
            f"{had.src} has {name} {found}, but {expected} was asked for",
            code="checksum",
            try_="check which file is meant; if the new one is right, put its digest into the file",
        )
    checked = "sha256" if wanted.sha256 else "md5" if wanted.md5 else ""
    return replace(had, sha256=file_digest(had.here), size_bytes=had.here.stat().st_size, checked=checked)


def _differing(wanted: Fetch, file: Path) -> tuple[str, str, str] | None:
    """Name of the digest that differs, what it should be and what it is; None where all are right."""
    for name, expected in (("SHA-256", wanted.sha256), ("MD5", wanted.md5)):
        if expected is not None:
            found = file_digest(file) if name == "SHA-256" else _md5(file)
            if found != expected:
                return name, expected, found
    return None


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _at(failure: MeasureError, at: str) -> MeasureError:
    """The failure at the place of the file that asked; what models are told about their keys is said of these."""
    problem = failure.problem
    message = problem.message.replace("target.sha256 is", "the digest asked for is").replace("of the model", "of it")
    try_ = problem.try_.replace("target.headers", f"{at}.headers").replace("target.sha256", f"{at}.sha256")
    return MeasureError(message, code=problem.code, at=at, try_=try_)

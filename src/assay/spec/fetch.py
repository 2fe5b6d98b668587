"""What a program needs from elsewhere: files that are fetched before it starts, checked, and kept for the next time."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator

from pydantic import Field, ValidationInfo, field_validator

from assay.spec.section import Section, Size

_DIGITS = {"sha256": 64, "md5": 32}


class Fetch(Section):
    """A file, or everything below a prefix, that is there before a program starts."""

    src: str = Field(min_length=1)
    """An http(s) or s3 URL, or a path from the benchmark file's folder; secrets by `${env:NAME}`. An s3 URL that ends
    with `/` means everything below it."""
    path: str
    """Where the program finds it, beginning with `/`: in its container, or for a plain process in a folder of its own,
    which is put in wherever its command or a variable names this path. One that ends with `/` is a folder for it."""
    sha256: str | None = None
    """SHA-256 of the file; one that differs is refused."""
    md5: str | None = None
    """MD5 of the file; one that differs is refused."""
    headers: dict[str, str] = {}
    """HTTP headers of the request; secrets by `${env:NAME}`."""
    max_size: Size = 100 * 2**30
    """Largest file that may be fetched."""

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""
        return "://" not in self.src

    @field_validator("src")
    @classmethod
    def _can_be_fetched(cls, value: str) -> str:
        scheme, there, rest = value.partition("://")
        if there and scheme.lower() not in ("http", "https", "s3"):
            raise ValueError(f"{value!r} cannot be fetched; write an http, https or s3 URL, or a path")
        if there and not rest.strip("/"):
            raise ValueError(f"{value!r} names no file")
        return value

    @field_validator("path")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if not value.startswith("/") or ":" in value or not value.isprintable():
            raise ValueError(f"{value!r} is no place for a file; write a whole path such as /data/train.npz")
        place = posixpath.normpath(f"/{value.lstrip('/')}")
        if ".." in value.split("/") or place == "/":
            raise ValueError(f"{value!r} is no place for a file: it must lie below the root, without any ..")
        return f"{place}/" if value.endswith("/") else place

    @field_validator("sha256", "md5")
    @classmethod
    def _is_a_digest(cls, value: str | None, info: ValidationInfo) -> str | None:
        digits = _DIGITS[info.field_name or "sha256"]
        if value is not None and not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value.lower()):
            raise ValueError(f"{value!r} is no digest: {digits} hexadecimal digits are needed")
        return None if value is None else value.lower()


def in_folders(wanted: tuple[Fetch, ...]) -> Iterator[Fetch]:
    """What is wanted, where a path that several files share is the folder around them; so is that of a prefix."""
    shared = Counter(one.path for one in wanted)
    for one in wanted:
        is_folder = shared[one.path] > 1 or (one.src.endswith("/") and not one.is_local)
        yield one if not is_folder or one.path.endswith("/") else one.model_copy(update={"path": f"{one.path}/"})

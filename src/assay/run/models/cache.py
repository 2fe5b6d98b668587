"""Entries of the model cache (a file, its unfinished part, what is known about both, a lock) and digests of models."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.errors import MeasureError


@dataclass(frozen=True, slots=True)
class Validator:
    """What a server said to recognise this version of a file by."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def for_resume(self) -> str | None:
        """The value for `If-Range`; a weak tag does not promise equal bytes."""
        strong = self.etag if self.etag and not self.etag.startswith("W/") else None
        return strong or self.last_modified


@dataclass(frozen=True, slots=True)
class CacheNotes:
    """What is known about a cached file."""

    url: str  # without secrets
    sha256: str
    size: int
    fetched_at: str
    etag: str | None = None
    last_modified: str | None = None

    @property
    def validator(self) -> Validator:
        """What the server said to recognise it by."""
        return Validator(self.etag, self.last_modified)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One file of the cache. The cache is ours alone: nothing here is a user's own file."""

    folder: Path
    name: str  # may hold folders, as names of external weight files may

    @property
    def file(self) -> Path:
        return self.folder / self.name

    @property
    def part(self) -> Path:
        """The unfinished file."""
        return self._beside("part")

    def notes(self) -> CacheNotes | None:
        """What is known about the finished file, if it is there."""
        held = _read_json(self._beside("json"))
        with contextlib.suppress(TypeError):
            return CacheNotes(**held) if held and self.file.is_file() else None  # type: ignore[arg-type]
        return None

    def part_size(self) -> int:
        """Bytes of the unfinished file."""
        return self.part.stat().st_size if self.part.is_file() else 0

    def part_validator(self) -> Validator:
        """By what the unfinished file's version is recognised."""
        held = _read_json(self._beside("part.json")) or {}
        return Validator(held.get("etag"), held.get("last_modified"))

    def begin(self, validator: Validator) -> None:
        """Start an unfinished file again from nothing."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        self.part.write_bytes(b"")
        self._beside("part.json").write_text(json.dumps(asdict(validator)), encoding="utf-8")

    def drop_part(self) -> None:
        """Remove the unfinished file."""
        self.part.unlink(missing_ok=True)
        self._beside("part.json").unlink(missing_ok=True)

    def keep(self, notes: CacheNotes) -> None:
        """Turn the unfinished file into the finished one, in one step."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # CacheNotes go first: a file with notes that do not fit it is found out by its digest and fetched again.
        fresh = self._beside("json.new")
        fresh.write_text(json.dumps(asdict(notes)), encoding="utf-8")
        fresh.replace(self._beside("json"))
        self.part.replace(self.file)
        self.drop_part()

    def forget(self) -> None:
        """Remove the finished file from the cache."""
        self._beside("json").unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold this entry's folder for one process; the system frees it even when the process is killed."""
        from assay.run.scratch import held

        with held(self.folder):
            yield

    def _beside(self, ending: str) -> Path:
        return self.folder / f".{self.name.replace('/', '_')}.{ending}"


def _read_json(path: Path) -> dict[str, str | None] | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return held if isinstance(held, dict) else None


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def whole_digest(parts: Sequence[tuple[str, str]]) -> str:
    """One digest of a model in several files: SHA-256 of their `sha256sum` lines, the model file first."""
    return hashlib.sha256("".join(f"{digest}  {name}\n" for digest, name in parts).encode()).hexdigest()


def mismatch(what: str, expected: str, found: str) -> MeasureError:
    """The error for a file that is not the one whose digest was given."""
    return MeasureError(
        f"{what} has SHA-256 {found}, but target.sha256 is {expected}",
        code="checksum",
        at="target.sha256",
        try_="check which file is meant; if the new one is right, put its digest into target.sha256",
    )

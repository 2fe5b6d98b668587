"""Digests of models: of one file, of a model in several files, and the error for a wrong one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from assay.errors import MeasureError


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

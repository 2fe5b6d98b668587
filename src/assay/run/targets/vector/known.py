"""True neighbours that were computed before, kept by what they were computed from."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from assay.run.targets.vector.oracle import ORACLE, Neighbours, find_neighbours
from assay.run.workloads.corpus import VectorSet, digest

_ARRAYS = ("ids", "distances", "tolerance", "is_open")
_NUMBERS = ("k", "left", "checked", "settled")


def known_neighbours(vectors: VectorSet, k: int, cache: Path | None, told: Callable[[float], None]) -> Neighbours:
    """The true neighbours, from the cache if they are there for exactly these vectors, else computed and kept.

    Args:
        cache: folder of the user's cache; None to compute them each time.
    """
    if cache is None:
        return find_neighbours(vectors, k, told)
    key = hashlib.sha256(f"{vectors.key} {k} {ORACLE}".encode()).hexdigest()
    path = cache / "neighbours" / f"{key}.npz"
    kept = _read(path)
    # The digest is of the vectors as this machine makes them now: the truth of others is worth nothing.
    if kept is not None and kept.digest == digest(vectors):
        return kept
    found = find_neighbours(vectors, k, told)
    with suppress(OSError):  # a cache that cannot be written costs time, not the run
        _write(path, found)
    return found


def _read(path: Path) -> Neighbours | None:
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in _ARRAYS}
            numbers = {name: int(held[name]) for name in _NUMBERS}
            return Neighbours(**arrays, **numbers, digest=str(held["digest"]))  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _write(path: Path, found: Neighbours) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{uuid.uuid4().hex}.npz")
    try:
        with fresh.open("wb") as file:
            values = {name: getattr(found, name) for name in (*_ARRAYS, *_NUMBERS, "digest")}
            np.savez(file, **values)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)

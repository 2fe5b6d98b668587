"""Files by content: uploads, and samples that came as uploads."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from assay.store.artefacts import checked_digest
from assay.store.store import Store


def held(store: Store, digest: str) -> Path | None:
    """Where the file with a content hash lies, among uploads and samples; None when it is not here.

    Raises:
        UsageError: if it is not a SHA-256.
    """
    checked_digest(digest)
    candidates = (store.artefacts.path(digest), store.samples.path(digest))
    return next((path for path in candidates if path.is_file()), None)


def missing(store: Store, digests: Iterable[str]) -> tuple[str, ...]:
    """Those of some files that are not here."""
    return tuple(digest for digest in dict.fromkeys(digests) if held(store, digest) is None)


def take_as_samples(store: Store, digests: Iterable[str]) -> None:
    """Move uploads to where the samples of runs lie; those that lie there already stay."""
    for digest in dict.fromkeys(digests):
        upload, place = store.artefacts.path(digest), store.samples.path(digest)
        if place.is_file() or not upload.is_file():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            upload.replace(place)
        except OSError:  # another file system: copied whole, then named
            partial = place.with_name(f".{digest}.part")
            shutil.copyfile(upload, partial)
            partial.replace(place)
            upload.unlink(missing_ok=True)

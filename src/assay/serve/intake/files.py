"""Files by content: uploads, and samples that came as uploads; here, or in the object store behind."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from assay.errors import StoreError
from assay.store.artefacts import checked_digest
from assay.store.samples import check_samples
from assay.store.store import Store


def held(store: Store, digest: str) -> Path | None:
    """Where the file with a content hash lies, among uploads and samples; None when there is none.

    Raises:
        UsageError: if it is not a SHA-256.
        StoreError: if it is not on this machine and the object store is away.
    """
    here = _here(store, digest)
    if here is not None or store.backing is None:
        return here
    return store.artefacts.find(digest) or store.samples.find(digest)


def known_size(store: Store, digest: str) -> int | None:
    """Bytes of a file, among uploads and samples; None when it has to be sent here.

    That is also so while nobody can say whether the object store has it: whoever has the file sends it once more, and
    nobody has to wait for the object store.

    Raises:
        UsageError: if it is not a SHA-256.
    """
    here = _here(store, digest)
    if here is not None:
        return here.stat().st_size
    with suppress(StoreError):
        found = store.artefacts.facts(digest) or store.samples.facts(digest)
        return None if found is None else found.size_bytes
    return None


def missing(store: Store, digests: Iterable[str]) -> tuple[str, ...]:
    """Those of some files that have to be sent here."""
    return tuple(digest for digest in dict.fromkeys(digests) if known_size(store, digest) is None)


def take_as_samples(store: Store, digests: Iterable[str], most: int) -> None:
    """Move uploads to where the samples of runs lie; those that lie there already stay.

    Raises:
        UsageError: `sample-file` if one holds no samples, or too many; then none is moved.
    """
    new = [digest for digest in dict.fromkeys(digests) if not store.samples.path(digest).is_file()]
    uploads = {digest: upload for digest in new if (upload := _upload(store, digest)) is not None}
    for digest, upload in uploads.items():
        check_samples(upload, digest, most)
    for digest, upload in uploads.items():
        store.samples.adopt(digest, upload)
        store.artefacts.remove(digest)


def take_as_files(store: Store, digests: Iterable[str]) -> None:
    """Keep samples among the uploads too, where a run left the same content as a file."""
    for digest in dict.fromkeys(digests):
        if store.artefacts.path(digest).is_file():
            continue
        if store.samples.path(digest).is_file() or store.artefacts.facts(digest) is None:
            same = store.samples.find(digest)
            if same is not None:
                store.artefacts.take(same)


def _here(store: Store, digest: str) -> Path | None:
    """The file on this machine, among uploads and samples."""
    checked_digest(digest)
    candidates = (store.artefacts.path(digest), store.samples.path(digest))
    return next((path for path in candidates if path.is_file()), None)


def _upload(store: Store, digest: str) -> Path | None:
    """An upload on this machine; one that another server took is fetched, unless its samples are there already."""
    path = store.artefacts.path(digest)
    if path.is_file():
        return path
    if store.backing is None or store.samples.facts(digest) is not None:
        return None
    return store.artefacts.find(digest)

"""Files by content hash: in a folder of this machine, and in an object store behind it where there is one."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from assay.errors import UsageError
from assay.store.objects.backing import Backing
from assay.store.objects.files import ObjectFacts
from assay.store.objects.outbox import Kind

_DIGEST = re.compile(r"[0-9a-f]{64}")
# A copy says when it was last used at most this often: it decides which copies go first, and needs no more.
_USED_EVERY_S = 60.0


class ContentFiles:
    """A folder of files by content hash. With an object store behind it, the folder holds what is new or was used."""

    kind: ClassVar[Kind]
    suffix: ClassVar[str] = ""

    def __init__(self, folder: Path, backing: Backing | None = None) -> None:
        self.folder = folder
        self.backing = backing

    def path(self, digest: str) -> Path:
        """Where the file with a content hash lies, if it is on this machine."""
        return self.folder / digest[:2] / f"{digest}{self.suffix}"

    def key(self, digest: str) -> str:
        """What the file with a content hash is called in an object store."""
        return f"{self.kind}/{digest[:2]}/{digest}{self.suffix}"

    def find(self, digest: str) -> Path | None:
        """A file on this machine; one that only the object store has is fetched. None when neither has it.

        Raises:
            UsageError: `digest` if it is not a SHA-256.
            StoreError: if it is not here and the object store is away, refuses, or has it damaged.
        """
        path = self.path(checked_digest(digest))
        if path.is_file():
            self._used(path)
            return path
        return path if self.fetch(digest) else None

    def at_hand(self, digest: str) -> Path:
        """Where a file lies, fetched if need be; where it would lie when there is none, so that reading it fails."""
        return self.find(digest) or self.path(digest)

    def fetch(self, digest: str) -> bool:
        """Bring a file from the object store, in place of what lies here; False where that has none."""
        if self.backing is None:
            return False
        return self.backing.fetch(self.key(checked_digest(digest)), digest, self.path(digest))

    def facts(self, digest: str) -> ObjectFacts | None:
        """Size and age of a file, wherever it lies; nothing is fetched. None when it is nowhere.

        Raises:
            UsageError: `digest` if it is not a SHA-256.
            StoreError: if it is not here and the object store cannot be asked.
        """
        with suppress(FileNotFoundError):
            found = self.path(checked_digest(digest)).stat()
            return ObjectFacts(self.key(digest), found.st_size, found.st_mtime)
        return None if self.backing is None else self.backing.facts(self.key(digest))

    def expect(self, digest: str) -> None:
        """Note that a file has to go to the object store; done before the file is put in its place.

        Nothing can then fall between the two: a mark without a file is found and forgotten, a file without a mark would
        stay here alone.
        """
        if self.backing is not None:
            self.backing.outbox.to_send(self.kind, digest)

    def remove(self, digest: str) -> None:
        """Delete a file here, and note that it has to go from the object store."""
        self.path(digest).unlink(missing_ok=True)
        if self.backing is not None:
            self.backing.outbox.to_delete(self.kind, digest)

    def missing(self, digests: Iterable[str]) -> tuple[str, ...]:
        """Those of some files that are neither here nor in the object store."""
        return tuple(digest for digest in dict.fromkeys(digests) if self.facts(digest) is None)

    def here(self) -> Iterator[str]:
        """The content hashes of all files on this machine."""
        for path in self.folder.glob(f"??/*{self.suffix}"):
            digest = path.name.removesuffix(self.suffix)
            if _DIGEST.fullmatch(digest) and path.parent.name == digest[:2]:
                yield digest

    def is_whole_here(self, digest: str) -> bool:
        """Whether the file on this machine has the content that its name says; nothing is fetched."""
        try:
            with self.path(digest).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == digest
        except OSError:
            return False

    def _used(self, path: Path) -> None:
        """Note that a copy was used, so that others go before it when room is needed."""
        if self.backing is None:
            return
        with suppress(OSError):
            known, now = path.stat(), time.time()
            if now - known.st_atime > _USED_EVERY_S:
                os.utime(path, ns=(round(now * 1e9), known.st_mtime_ns))


def checked_digest(digest: str) -> str:
    """A content hash as it came, if it is one.

    Raises:
        UsageError: `digest` if it is not a SHA-256.
    """
    if not _DIGEST.fullmatch(digest):
        raise UsageError(
            f"{digest[:80]!r} is not a SHA-256: 64 hexadecimal digits in lower case are needed", code="digest"
        )
    return digest

"""Files that travel with jobs, fetched once: many jobs of a campaign share a model."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from assay.place.fleet.client import FleetClient
from assay.plan.job import JobFile


class InputCache:
    """A folder of files by content; the ones used longest ago make room for new ones."""

    def __init__(self, folder: Path, client: FleetClient, max_bytes: int) -> None:
        self._folder = folder
        self._client = client
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def put(self, file: JobFile, to: Path, *, own: bool) -> None:
        """Put a file where a job wants it."""
        kept = self._folder / file.sha256
        with self._lock:
            if not _is_sound(kept, file):
                self._make_room(file.size_bytes)
                self._client.download(file.sha256, kept)
            os.utime(kept)  # used now
            _place(kept, to, own=own)

    def empty(self) -> None:
        """Give the room back."""
        with self._lock:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_room(self, needed: int) -> None:
        with suppress(OSError):
            kept = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            total = needed
            for path in kept:
                total += path.stat().st_size
                if total > self._max_bytes:
                    path.unlink(missing_ok=True)


def _is_sound(path: Path, file: JobFile) -> bool:
    try:
        if path.stat().st_size != file.size_bytes:
            return False
        with path.open("rb") as kept:
            return hashlib.file_digest(kept, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def _place(kept: Path, to: Path, *, own: bool) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    if not own:
        with suppress(OSError):  # another disk, or a file system without links
            os.link(kept, to)
            return
    shutil.copyfile(kept, to)

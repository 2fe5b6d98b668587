"""Acknowledged means durable: one sync of SQLite's write-ahead log for all commits that came before it.

Commits are written and not synced (`synchronous = NORMAL`). Before a server answers, the log is synced: after that,
everything committed so far outlives a power cut, as with `synchronous = FULL`, but requests that are answered at the
same time share one sync. A checkpoint does no harm in between: SQLite syncs the log before it, and the database after.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Engine

from assay.errors import StoreError
from assay.files import sync_folder
from assay.store.database import commits


class WriteAheadLog:
    """The log of one SQLite file, and how much of it is known to be on disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = Path(f"{engine.url.database}-wal")
        self._lock = threading.Lock()
        self._synced = -1
        self._lost = ""

    @classmethod
    def of(cls, engine: Engine) -> WriteAheadLog | None:
        """The log of a database; None for a server's database, which syncs its commits itself."""
        return cls(engine) if engine.dialect.name == "sqlite" else None

    @property
    def committed(self) -> int:
        """How many commits there were so far."""
        return commits(self._engine)

    def has(self, commit: int) -> bool:
        return self._synced >= commit and not self._lost

    def sync(self) -> None:
        """Return when everything that was committed before is on disk.

        Raises:
            StoreError: `disk` if the disk did not take it. A sync that fails may lose what was written, and a second
                one says nothing about it: from then on every sync fails.
        """
        with self._lock:
            until = self.committed
            if not self._lost and self._synced < until:
                self._lost = self._flush()
            if self._lost:
                raise StoreError(
                    f"the disk did not take what was written: {self._lost}",
                    code="disk",
                    at=str(self._path),
                    try_="check the disk, then start the server again",
                )
            self._synced = until

    def _flush(self) -> str:
        """Sync the log; return what went wrong."""
        try:
            # Gone means that the last connection was closed, which brought everything into the database.
            with suppress(FileNotFoundError):
                _sync_file(self._path)
            if self._synced < 0:
                sync_folder(self._path.parent)
                sync_folder(self._path.parent.parent)
        except OSError as problem:
            return str(problem.strerror or problem)
        return ""


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)  # Windows syncs no file that is open for reading alone
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

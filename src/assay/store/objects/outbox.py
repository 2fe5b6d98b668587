"""What has to be done in an object store and is not done yet: one empty file each, which outlives every process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from assay.errors import StoreError

Action = Literal["send", "delete"]
Kind = Literal["samples", "artefacts"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing to do."""

    action: Action
    kind: Kind
    digest: str
    made_at: float
    """Seconds since 1970."""

    @property
    def age_s(self) -> float:
        """How long it has been waiting."""
        return time.time() - self.made_at


class Outbox:
    """A folder of marks. To send a file and to delete it exclude each other: the last word counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def to_send(self, kind: Kind, digest: str) -> None:
        """Note that a file has to go to the object store; done before the file is put in its place.

        Raises:
            StoreError: `disk` if it cannot be noted.
        """
        self._note("send", kind, digest)
        self._path("delete", kind, digest).unlink(missing_ok=True)

    def to_delete(self, kind: Kind, digest: str) -> None:
        """Note that an object has to go; done after the file is gone.

        Raises:
            StoreError: `disk` if it cannot be noted.
        """
        self._note("delete", kind, digest)
        self._path("send", kind, digest).unlink(missing_ok=True)

    def done(self, mark: Mark) -> None:
        self._path(mark.action, mark.kind, mark.digest).unlink(missing_ok=True)

    def waits(self, kind: Kind, digest: str) -> bool:
        """Whether a file has not been sent yet."""
        return self._path("send", kind, digest).exists()

    def marks(self, action: Action) -> tuple[Mark, ...]:
        """Everything of one kind of work, the oldest first."""
        found = [mark for kind in KINDS for mark in self._marks(action, kind)]
        return tuple(sorted(found, key=lambda mark: (mark.made_at, mark.digest)))

    def count(self, action: Action) -> int:
        """How much of one kind of work there is."""
        return sum(sum(1 for _ in self._names(action, kind)) for kind in KINDS)

    def _marks(self, action: Action, kind: Kind) -> Iterator[Mark]:
        for path in self._names(action, kind):
            try:
                yield Mark(action, kind, path.name, path.stat().st_mtime)
            except FileNotFoundError:  # somebody else was quicker
                continue

    def _names(self, action: Action, kind: Kind) -> Iterator[Path]:
        try:
            yield from (self.folder / action / kind).iterdir()
        except FileNotFoundError:
            return

    def _note(self, action: Action, kind: Kind, digest: str) -> None:
        path = self._path(action, kind, digest)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
        except OSError as problem:
            raise StoreError(
                f"cannot write: {problem.strerror}",
                code="disk",
                at=str(path),
                try_="free some space or set another place with --store",
            ) from None

    def _path(self, action: Action, kind: Kind, digest: str) -> Path:
        return self.folder / action / kind / digest

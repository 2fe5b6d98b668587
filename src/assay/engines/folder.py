"""The folder of a campaign that runs elsewhere: what it is, its jobs, what was submitted, and what came out.

Files are written whole or not at all, because another process may read at any moment; lines are appended in one write
each. Engines say where such a folder lies, who may read it, and what else is in it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import JsonValue

from assay.documents import from_json, to_json
from assay.errors import StoreError, UsageError
from assay.files import append_line, write_whole
from assay.plan.job import Job
from assay.run.scratch import is_held

if TYPE_CHECKING:
    from assay.engines.base import Engine
    from assay.report.live import View
    from assay.store.store import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CampaignFolder(ABC):
    """The folder of one campaign."""

    path: Path

    MODE: ClassVar[int] = 0o600
    """Who may read what is written."""
    NAMED_BY: ClassVar[str]
    """What to do where there is no campaign in a folder."""

    @property
    def campaign(self) -> Path:
        """What the campaign is: its benchmark, and how it was submitted."""
        return self.path / "campaign.json"

    @property
    def submitted(self) -> Path:
        """One line for each step of submitting."""
        return self.path / "submitted.jsonl"

    def job(self, index: int) -> Path:
        return self.path / "jobs" / f"{index:04}.json"

    def out(self, index: int) -> Path:
        """What the measurement of one job leaves: result.json, runs/, samples/, files/."""
        return self.path / "out" / f"{index:04}"

    def write_campaign(self, record: object) -> None:
        self._write(self.campaign, to_json(record, indent=2).encode())

    def read_campaign(self, record: type[T]) -> T:
        """Read what the campaign is, as a record of the type that was written.

        Raises:
            UsageError: if there is no campaign here, or its document is of another kind.
        """
        try:
            content = self.campaign.read_bytes()
        except FileNotFoundError:
            raise UsageError(
                "there is no campaign in this folder", code="no-campaign", at=str(self.path), try_=self.NAMED_BY
            ) from None
        except OSError as problem:
            raise self.unusable(self.campaign, problem) from None
        return from_json(record, content, source=str(self.campaign))

    def write_job(self, job: Job) -> Path:
        """Write a job document under its index."""
        self._write(self.job(job.index), to_json(job, indent=2).encode())
        return self.job(job.index)

    def read_job(self, index: int) -> Job:
        """Read a job document.

        Raises:
            UsageError: if it is not there or is no job.
        """
        path = self.job(index)
        try:
            return from_json(Job, path.read_bytes(), source=str(path))
        except OSError as problem:
            raise UsageError(
                f"cannot read the job document: {problem.strerror}", code="no-file", at=str(path)
            ) from None

    def note(self, line: dict[str, JsonValue]) -> None:
        """Append one line about submitting; it is on disk when this returns."""
        try:
            append_line(self.submitted, json.dumps(line, separators=(",", ":"), ensure_ascii=False))
        except OSError as problem:
            raise self.unusable(self.submitted, problem) from None

    def noted(self) -> Iterator[dict[str, JsonValue]]:
        """The lines about submitting, in order; one that was cut short by a crash is passed over."""
        try:
            text = self.submitted.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as problem:
            raise self.unusable(self.submitted, problem) from None
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record

    @staticmethod
    @abstractmethod
    def unusable(path: Path, problem: OSError) -> StoreError:
        """What to say where the disk refuses something."""

    def _write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        try:
            write_whole(path, content, mode=self.MODE if mode is None else mode)
        except OSError as problem:
            raise self.unusable(path, problem) from None


def unfollowed(engine: type[Engine[Job, Store]], store: Store, digest: str, view: View) -> str | None:
    """The newest campaign of a plan that an engine still has and that no process follows."""
    for campaign in store.unfinished(digest, engine.NAME):
        folder = engine.folder_of(store.folder, campaign)
        if folder is not None and folder.campaign.is_file() and not is_held(folder.path):
            view.note(
                f"campaign {campaign} of the same plan continues in {engine.TITLE}; "
                "following it (--fresh submits a new one)"
            )
            return campaign
    return None

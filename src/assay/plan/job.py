"""The job: one point of a benchmark's matrix, for one machine. It is the document that engines move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.spec.benchmark import Definition

JOB_SCHEMA = "assay.job/1"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file that travels with a job: its name without folder, and its content."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """One point of the matrix, complete: whoever holds this document can measure it."""

    benchmark: str
    digest: str
    index: int
    definition: Definition
    point: Mapping[str, JsonValue] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    base: str = "."
    """Folder that relative paths of the definition start from."""
    campaign: str = ""
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the definition that names a file → that file and those beside it, by content; empty where the
    files lie on this very machine."""
    git: Mapping[str, JsonValue] = field(default_factory=dict)
    """Commit of the folder that its files came from, where they are measured elsewhere."""
    schema: Literal["assay.job/1"] = "assay.job/1"

    @property
    def id(self) -> str:
        """Name of this job inside its campaign's history."""
        return f"{self.campaign or 'adhoc'}-job-{self.index}"

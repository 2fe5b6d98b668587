"""The job: one point of a benchmark's matrix, for one machine. It is the document that engines move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.spec.benchmark import Definition

JOB_SCHEMA = "assay.job/1"


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
    schema: Literal["assay.job/1"] = "assay.job/1"

    @property
    def id(self) -> str:
        """Name of this job inside its campaign's history."""
        return f"{self.campaign or 'adhoc'}-job-{self.index}"

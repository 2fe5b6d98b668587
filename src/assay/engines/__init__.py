"""Engines: what moves a job document to a machine and its result document back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from assay.plan.job import Job

# Measures a job where it is called.
Execute = Callable[[Job], None]


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Why a job gave no result, as what it was placed on tells it."""

    code: str
    message: str
    try_: str


class Engine(Protocol):
    """Places jobs on machines."""

    def place(self, job: Job) -> None:
        """Have a job measured; raise MeasureError when no machine can take it."""
        ...

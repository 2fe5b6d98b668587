"""Engines: what moves a job document to a machine and its result document back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from assay.plan.job import Job

# Measures a job where it is called.
Execute = Callable[[Job], None]


class Engine(Protocol):
    """Places jobs on machines."""

    def place(self, job: Job) -> None:
        """Have a job measured; raise MeasureError when no machine can take it."""
        ...

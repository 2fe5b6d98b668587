"""The two sides of an experiment: two jobs, where they came from and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.exec.machine import require_needs
from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.plan import Plan
from assay.plan.support import refuse_parts_in_turn, refuse_unsupported
from assay.run.capabilities import profile_for
from assay.run.inputs import plan_of
from assay.spec.load import Loaded


@dataclass(frozen=True, slots=True)
class Twin:
    """Two jobs that are measured in turn."""

    plans: tuple[Plan, Plan]
    """Each with one job."""
    documents: tuple[Mapping[str, Any], Mapping[str, Any]]
    """The benchmark files, as they were read."""
    labels: tuple[Mapping[str, str], Mapping[str, str]]
    names: tuple[str, str]
    """What the sides are called, for people."""

    @property
    def jobs(self) -> tuple[Job, Job]:
        return self.plans[0].jobs[0], self.plans[1].jobs[0]

    def digest(self, side: str, more: Mapping[str, str]) -> str:
        """What the campaign of an interrupted experiment must share to be continued."""
        jobs = [[job.benchmark, job.digest] for job in self.jobs]
        return content_hash(["in turn", jobs, sorted(more.items()), side])


def twin_of(sides: Sequence[Loaded], names: Sequence[str], numbers: Sequence[int] = (0, 0)) -> Twin:
    """Two benchmarks as the two sides of an experiment.

    Raises:
        AssayError: if one asks for something that this machine cannot do; nothing is begun then.
    """
    for side in sides:
        refuse_unsupported(side.benchmark)
    plans = [plan_of(side) for side in sides]
    for plan in plans:
        refuse_parts_in_turn(plan.jobs)
    jobs = [replace(plan.jobs[number], index=0) for plan, number in zip(plans, numbers, strict=True)]
    profile = profile_for(jobs)
    for job in jobs:
        require_needs(job, profile)
    a, b = (Plan(job.benchmark, job.digest, (job,)) for job in jobs)
    first, second = sides
    return Twin(
        (a, b),
        (first.source.document, second.source.document),
        (first.benchmark.labels, second.benchmark.labels),
        (names[0], names[1]),
    )

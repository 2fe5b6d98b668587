"""The reasons for doubt and for failure, each once with the jobs that it concerns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from assay.analyse.answer.records import SEVERITIES, DoubtGroup, FailureGroup, Severity
from assay.analyse.checks import ADVISORY, INVALIDATING
from assay.analyse.records import Check, MultiRunJobResult

MOST_DOUBTS = 10
_PERCENT = re.compile(r"(\d[\d,]*(?:\.\d+)?) %")


def reasons_of(job: MultiRunJobResult) -> Iterator[tuple[Severity, Check]]:
    """What speaks against one job's result, each with what it does to it."""
    if job.state != "done":
        return
    for check in job.checks:
        if check.passed is False:
            yield _severity(check), check
    for gate in job.gates:
        if gate.passed is not True:
            yield "missed" if gate.passed is False else "undecided", gate


def _severity(check: Check) -> Severity:
    if check.name in ADVISORY:
        return "advice"
    return "invalid" if check.name in INVALIDATING else "suspect"


# Of reasons that concern as many jobs the state of the machine comes first: the others often follow from it.
_CAUSES = (
    "machine quiet",
    "device held alone",
    "no foreign process on the device",
    "clocks not throttled",
    "control workload steady",
)


def doubts_of(jobs: Iterable[MultiRunJobResult]) -> list[DoubtGroup]:
    """The reasons for doubt, each once, with the jobs that it concerns."""
    groups: dict[tuple[Severity, str], list[tuple[str, str]]] = {}
    for job in jobs:
        for severity, check in reasons_of(job):
            groups.setdefault((severity, check.name), []).append((job.job, check.detail))
    reasons = [
        DoubtGroup(name, severity, tuple(job for job, _ in entries), *max(entries, key=lambda entry: _size(entry[1])))
        for (severity, name), entries in groups.items()
    ]

    def place(group: DoubtGroup) -> tuple[int, int, bool]:
        return SEVERITIES.index(group.severity), -len(group.jobs), group.check not in _CAUSES

    return sorted(reasons, key=place)


def weight(reason: tuple[Severity, Check]) -> tuple[int, bool]:
    """Where a reason of one job stands: the most serious first, and a state of the machine before what may follow."""
    severity, check = reason
    return SEVERITIES.index(severity), check.name not in _CAUSES


def _size(sentence: str) -> float:
    """How bad a check's sentence is beside others of the same check: the first share that it names."""
    match = _PERCENT.search(sentence)
    return float(match[1].replace(",", "")) if match else 0.0


def failures_of(jobs: Iterable[MultiRunJobResult]) -> tuple[FailureGroup, ...]:
    """Jobs without numbers, by the code of what went wrong; those of most jobs first."""
    groups: dict[str, list[MultiRunJobResult]] = {}
    for job in jobs:
        if job.state in ("failed", "poisoned"):
            error = job.failure
            groups.setdefault(error.code if error else "unknown", []).append(job)
    failures = [_failure(code, members) for code, members in groups.items()]
    return tuple(sorted(failures, key=lambda group: -len(group.jobs)))


def _failure(code: str, jobs: Sequence[MultiRunJobResult]) -> FailureGroup:
    names, error = tuple(job.job for job in jobs), jobs[0].failure
    if error is None:
        return FailureGroup(code, "", names, "no reason was recorded", "")
    return FailureGroup(code, error.phase, names, error.message, error.try_)

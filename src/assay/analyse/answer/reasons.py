"""The reasons for doubt and for failure, each once with the jobs that it concerns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from assay.analyse.answer.records import SEVERITIES, DoubtGroup, FailureGroup, Severity
from assay.analyse.checks import ADVISORY, INVALIDATING
from assay.analyse.records import Check, MultiRunJobResult

MOST_DOUBTS = 10
_PERCENT = re.compile(r"(\d[\d,]*(?:\.\d+)?) %")


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that speaks against a result."""

    severity: Severity
    check: Check


def reasons_of(job: MultiRunJobResult) -> tuple[Reason, ...]:
    """What speaks against one job's result, the main reason of its verdict first.

    Those that led to the verdict come before all others, however serious; of these the state of the machine comes
    first, since the others often follow from it.
    """
    return tuple(sorted(_found(job), key=lambda reason: _weight(reason, job.verdict)))


def main_reason(job: MultiRunJobResult) -> Reason | None:
    """Why a measured job has its verdict; None where nothing speaks against it."""
    return next(iter(reasons_of(job)), None) if job.state == "done" else None


def _found(job: MultiRunJobResult) -> Iterator[Reason]:
    for check in job.checks:
        if check.passed is False:
            yield Reason(severity_of(check), check)
    for gate in job.gates:
        if gate.passed is not True:
            yield Reason("missed" if gate.passed is False else "undecided", gate)


def _weight(reason: Reason, verdict: str | None) -> tuple[bool, int, bool]:
    severity = reason.severity
    return severity != verdict, SEVERITIES.index(severity), reason.check.name not in _CAUSES


def severity_of(check: Check) -> Severity:
    """What a failed check does to the verdict by itself."""
    if check.name in ADVISORY:
        return "advice"
    return "invalid" if check.name in INVALIDATING else "suspect"


# States of the machine, from which other reasons often follow.
_CAUSES = (
    "machine quiet",
    "device held alone",
    "no foreign process on the device",
    "clocks not throttled",
    "control workload steady",
)


def doubts_of(jobs: Iterable[MultiRunJobResult]) -> list[DoubtGroup]:
    """The reasons for doubt, each once, with its jobs; of each severity the commonest main one first."""
    groups: dict[tuple[Severity, str], list[tuple[str, str]]] = {}
    main: Counter[tuple[Severity, str]] = Counter()
    for job in jobs:
        for rank, reason in enumerate(reasons_of(job) if job.state == "done" else ()):
            key = reason.severity, reason.check.name
            groups.setdefault(key, []).append((job.job, reason.check.detail))
            main[key] += not rank
    reasons = [
        DoubtGroup(name, severity, tuple(job for job, _ in entries), *max(entries, key=lambda entry: _size(entry[1])))
        for (severity, name), entries in groups.items()
    ]

    def place(group: DoubtGroup) -> tuple[int, int, int, bool]:
        often = main[group.severity, group.check]
        return SEVERITIES.index(group.severity), -often, -len(group.jobs), group.check not in _CAUSES

    return sorted(reasons, key=place)


def _size(sentence: str) -> float:
    """How bad a check's sentence is beside others of the same check: the first share that it names."""
    match = _PERCENT.search(sentence)
    return float(match[1].replace(",", "")) if match else 0.0


# Of these what was written last says more than any message; the others explain themselves.
_SPEAK_LAST = frozenset({"command", "crashed", "out-of-memory", "timeout"})


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
    written = error.log_tail if code in _SPEAK_LAST else ()
    return FailureGroup(code, error.phase, names, error.message, error.try_, written)

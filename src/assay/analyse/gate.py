"""The gate: a new result held against earlier ones, its own objectives and its verdict; three answers, never two.

Where many numbers are looked at, luck alone would turn some of them red. So only those are believed of which at most
one in forty is luck (Benjamini and Hochberg): then a gate on equal things is red in at most one of forty cases, however
many jobs and metrics it looks at. One baseline result does not tell how much days differ. So a gate that is red against
a single result of another day says that this promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.analyse.compare.comparability import Sides, unusable_word
from assay.analyse.compare.jobs import JobMatch, match_jobs, pool
from assay.analyse.compare.limits import (
    ByRun,
    LimitDraft,
    LimitVerdict,
    RegressionLimits,
    believable,
    draft_line,
    judged_line,
    names_in,
    no_samples,
)
from assay.analyse.compare.metric import RECOMMENDED_RESULTS
from assay.analyse.headline import split_statistic
from assay.analyse.records import CampaignRecord, Check, MultiRunJobResult
from assay.analyse.text import count

SIDES: Sides = ("the baseline", "the new")
# The part of a time that names the day: 2026-11-16.
_DAY = 10

GateAnswer = Literal["green", "red", "cannot tell", "nothing"]
JobKind = Literal["judged", "not measured", "invalid", "not comparable", "no baseline"]
Chosen = Callable[[MultiRunJobResult], Sequence[str]]


@dataclass(frozen=True, slots=True)
class JobGate:
    """What the gate says about one job."""

    result: MultiRunJobResult
    kind: JobKind
    because: tuple[str, ...] = ()
    """Why it is not judged; empty where it is."""
    lines: tuple[LimitVerdict, ...] = ()
    baseline: tuple[str, ...] = ()
    """The jobs it was held against."""
    left_out: tuple[str, ...] = ()
    """Which results of the baseline do not count, and why."""
    warnings: tuple[str, ...] = ()
    """What else differs from the baseline."""
    unpromised: str = ""
    """Why luck turns a number of this job red more often than is promised; empty where it does not."""

    @property
    def objectives(self) -> tuple[Check, ...]:
        """The objectives of the benchmark file, as the result has them."""
        return self.result.gates if self.kind != "not measured" else ()

    @property
    def answer(self) -> GateAnswer:
        """What the job alone would make of the gate."""
        told = [check.passed for check in self.objectives]
        answers = [line.answer for line in self.lines]
        if self.kind == "invalid" or False in told or "red" in answers:
            return "red"
        if self.kind in ("not measured", "not comparable"):
            return "nothing"
        return "cannot tell" if self.kind == "no baseline" or None in told or "cannot tell" in answers else "green"


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the gate says about a result."""

    answer: GateAnswer
    """`nothing`: there was nothing to judge, since nothing was measured or nothing may be compared."""
    because: tuple[str, ...]
    """The reasons for the answer, counted."""
    jobs: tuple[JobGate, ...]
    missing: tuple[MultiRunJobResult, ...] = ()
    """Jobs of the baseline that the new result does not have."""

    @property
    def has_no_baseline(self) -> bool:
        """Whether all that is missing is an earlier result to compare with."""
        return self.answer == "nothing" and bool(self.jobs) and all(job.kind == "no baseline" for job in self.jobs)

    def exit_code(self, *, strict: bool = False, allow_missing: bool = False) -> int:
        """What a pipeline is told: 0 green, 1 red, 3 where there was nothing to judge."""
        if self.has_no_baseline and allow_missing:
            return 0
        return {"green": 0, "red": 1, "cannot tell": 3 if strict else 0, "nothing": 3}[self.answer]


def gate(
    result: CampaignRecord,
    baseline: Sequence[CampaignRecord] | None,
    limits: RegressionLimits,
    chosen: Chosen,
    *,
    anyway: bool = False,
    part: bool = False,
    by_run: ByRun = no_samples,
) -> GateResult:
    """Hold a result against a baseline and against its own objectives.

    Args:
        baseline: Earlier results, the newest first; None to judge by objectives and verdict alone.
        anyway: Whether to compare although machine or settings differ.
    """
    matching = match_jobs(baseline or (), (result,))
    matched = {id(pair.b[0]): pair for pair in matching.pairs}
    drafts: list[tuple[JobGate, tuple[LimitDraft, ...]]] = []
    for job in result.jobs:
        alone = _alone(job)
        if alone.kind == "judged" and baseline is not None:
            drafts.append(_against(alone, matched.get(id(job)), limits, chosen, by_run, anyway=anyway))
        else:
            drafts.append((alone, ()))
    jobs = _concluded(drafts, limits)
    # A point that earlier baselines had and the newest no longer has is not missing.
    newest = () if part or not baseline else baseline[0].jobs
    missing = tuple(job for job in matching.only_a if any(job is one for one in newest))
    answer = _answer_of(jobs, missing, compared=baseline is not None)
    return GateResult(answer, _reasons(jobs, missing), jobs, missing)


def unknown_numbers(limits: RegressionLimits, jobs: Sequence[MultiRunJobResult]) -> tuple[str, ...]:
    """The numbers that limits name and no measured job has: most likely misspelt."""
    measured = [job for job in jobs if job.metrics]
    named = dict.fromkeys((*limits.numbers, *limits.of))
    return tuple(
        split_statistic(name)[0] for name in named if measured and not any(names_in(name, job) for job in measured)
    )


def _alone(job: MultiRunJobResult) -> JobGate:
    """What a result says about itself, before anything is held against it."""
    word = unusable_word(job)
    if not word:
        return JobGate(job, "judged")
    failure = job.error or next((run.error for run in job.runs if run.error), None)
    told = (f"the new result is {word}", *((failure.message,) if failure else ()))
    return JobGate(job, "invalid" if job.state == "done" else "not measured", told)


def _against(
    alone: JobGate, pair: JobMatch | None, limits: RegressionLimits, chosen: Chosen, by_run: ByRun, *, anyway: bool
) -> tuple[JobGate, tuple[LimitDraft, ...]]:
    """Choose what a job is held against, and find how far each of its numbers is from it."""
    if pair is None:
        return replace(alone, kind="no baseline", because=("no earlier result has this job",)), ()
    found = pool(pair, anyway=anyway, sides=SIDES)
    if found.refused:
        return replace(alone, kind="not comparable", because=found.refused, warnings=found.warnings), ()
    used = tuple(job.job for job in found.a)
    unpromised = _unpromised(found.a, alone.result)
    told = (*((unpromised,) if unpromised else ()), *found.warnings)
    judged = replace(alone, baseline=used, left_out=found.left_out, warnings=told, unpromised=unpromised)
    # What the baseline has counts too: a number that is no longer there must not pass unseen.
    names = _numbers((alone.result, found.a[0]), limits, chosen)
    return judged, tuple(draft_line(found, name, limits, by_run) for name in names)


def _unpromised(baseline: Sequence[MultiRunJobResult], new: MultiRunJobResult) -> str:
    """Why the promise of at most one red gate in forty does not hold: one baseline result, not of the same day."""
    if len(baseline) > 1:
        return ""
    days = [(job.started_at or "")[:_DAY] for job in (*baseline, new)]
    if days[0] and days[0] == days[1]:
        return ""
    when = f"of {days[0]}, and the new one of {days[1]}" if all(days) else "whose day is not known"
    need = f"{RECOMMENDED_RESULTS} or more baseline results keep that promise, and so does a baseline of the same day"
    return f"the baseline is one result {when}: days differ, so luck turns more than one of forty gates red; {need}"


def _numbers(jobs: Sequence[MultiRunJobResult], limits: RegressionLimits, chosen: Chosen) -> tuple[str, ...]:
    """The numbers that count for a job, each once, by the names that its results have for them."""
    wanted = dict.fromkeys((*(limits.numbers or (name for job in jobs for name in chosen(job))), *limits.of))
    named = {name: dict.fromkeys(full for job in jobs for full in names_in(name, job)) for name in wanted}
    return tuple(dict.fromkeys(full for name, found in named.items() for full in found or (name,)))


def _concluded(
    drafts: Sequence[tuple[JobGate, tuple[LimitDraft, ...]]], limits: RegressionLimits
) -> tuple[JobGate, ...]:
    """Give every number its answer, now that all are known."""
    known = [draft for _, lines in drafts for draft in lines if draft.change is not None]
    believed = believable([draft.chance for draft in known], (1 - limits.level) / 2)
    sure = {id(draft) for draft, kept in zip(known, believed, strict=True) if kept}
    return tuple(
        replace(
            job,
            lines=tuple(
                judged_line(draft, limits, believed=id(draft) in sure, looked_at=len(known)) for draft in lines
            ),
        )
        for job, lines in drafts
    )


def _answer_of(jobs: Sequence[JobGate], missing: Sequence[MultiRunJobResult], *, compared: bool) -> GateAnswer:
    answers = [job.answer for job in jobs]
    if "red" in answers:
        return "red"
    unmatched = compared and all(job.kind == "no baseline" for job in jobs)
    if unmatched or "nothing" in answers or not jobs:
        return "nothing"
    return "cannot tell" if "cannot tell" in answers or missing else "green"


def _reasons(jobs: Sequence[JobGate], missing: Sequence[MultiRunJobResult]) -> tuple[str, ...]:
    """Why the gate says what it says, counted, the worst first."""
    lines = [line.answer for job in jobs for line in job.lines]
    objectives = [check.passed for job in jobs for check in job.objectives]
    kinds = [job.kind for job in jobs]
    told = (
        (lines.count("red"), len(lines), "number", "worse than the limit"),
        (objectives.count(False), len(objectives), "objective", "missed"),
        (kinds.count("invalid"), len(kinds), "job", "invalid"),
        (kinds.count("not measured"), len(kinds), "job", "not measured"),
        (kinds.count("not comparable"), len(kinds), "job", "not comparable with the baseline"),
        (kinds.count("no baseline"), len(kinds), "job", "without an earlier result"),
        (lines.count("cannot tell"), len(lines), "number", "cannot be told"),
        (objectives.count(None), len(objectives), "objective", "cannot be told"),
        (len(missing), len(missing), "job", "of the baseline not in the new result"),
    )
    found = tuple(f"{some} of {count(every, thing)} {word}" for some, every, thing, word in told if some)
    red = [job for job in jobs if job.unpromised and any(line.answer == "red" for line in job.lines)]
    found += tuple(dict.fromkeys(job.unpromised for job in red))
    good = ((len(lines), "number", "within the limit"), (len(objectives), "objective", "met"))
    fine = tuple(f"{count(every, thing)} {word}" for every, thing, word in good if every)
    return found or fine or ("every job was measured" if jobs else "the result has no job",)

"""The gate: a new result held against earlier ones, its own objectives and its verdict; three answers, never two.

A number is red if it is worse, shown by the spread, and by more than the limit as far as can be seen; green if the
interval of the change ends before the limit. Anything else is undecided.

Where many numbers are looked at, luck alone would turn some of them red. So only those are believed of which at most
one in forty is luck (Benjamini and Hochberg): then a gate on equal things is red in at most one of forty cases, however
many jobs and metrics it looks at. One baseline result does not show how much days differ. So a gate that is red against
a single result of another day says that this promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from assay.analyse.compare.comparability import MachineShift, Sides, unusable_word
from assay.analyse.compare.jobs import JobMatch, ResultPool, match_jobs, pool
from assay.analyse.compare.many import believable
from assay.analyse.compare.metric import (
    MIN_RUNS,
    RECOMMENDED_RESULTS,
    RelativeChange,
    ResultReading,
    between_results,
    change_between_results,
    different_meaning,
    more_runs,
)
from assay.analyse.headline import is_quality, split_statistic
from assay.analyse.intervals import LEVEL, TAILS, backed, between_runs, samples_needed
from assay.analyse.records import CampaignRecord, Check, Interval, MetricStatistics, MultiRunJobResult
from assay.analyse.summary import measured_values
from assay.analyse.text import count, percent, quantity
from assay.metrics import Better, base_name
from assay.run.records import SampleSet

# A job, one of its metrics and a statistic → what each run gave, where its samples can still be read.
ByRun = Callable[[MultiRunJobResult, str, str], Mapping[int, float]]


def no_samples(_job: MultiRunJobResult, _metric: str, _statistic: str) -> Mapping[int, float]:
    """What each run gave, where no samples can be read: nothing is known."""
    return {}


def short_name(name: str) -> str:
    """A number without the context that a program gave it: `speed{batch=8}.p99` is `speed.p99`."""
    metric, statistic = split_statistic(name)
    return f"{base_name(metric)}{f'.{statistic}' if statistic else ''}"


def names_in(name: str, job: MultiRunJobResult) -> tuple[str, ...]:
    """A number by the names that a job has for it, of which a program may give several; none where it has none."""
    metric, statistic = split_statistic(name)
    dot = f".{statistic}" if statistic else ""
    return tuple(f"{label}{dot}" for label in job.metrics if metric in (label, base_name(label)))


def reading_of(
    job: MultiRunJobResult, stats: MetricStatistics, metric: str, statistic: str, by_run: ByRun = no_samples
) -> ResultReading | None:
    """One number of one result; None where its samples do not back it."""
    if statistic in (("", "mean") if is_quality(metric) else ("", "median", "p50")):
        runs = tuple(stats.run_values.values())
        return ResultReading(float(np.median(runs)), runs)
    value: float | None = getattr(stats, statistic)
    return None if value is None else ResultReading(value, tuple(by_run(job, metric, statistic).values()))


def statistic_of_run(samples: Sequence[SampleSet], metric: str, statistic: str) -> float | None:
    """A statistic of the samples of one run; None where they are too few to speak of it."""
    values = measured_values(samples).get(metric, np.empty(0))
    values = values[np.isfinite(values)]
    if not values.size or (statistic == "std" and values.size < 2):
        return None
    if statistic in TAILS:
        return float(np.quantile(values, TAILS[statistic])) if backed(values.size, TAILS[statistic]) else None
    functions: dict[str, Callable[..., np.float64]] = {"mean": np.mean, "min": np.min, "max": np.max}
    return float(values.std(ddof=1) if statistic == "std" else functions.get(statistic, np.median)(values))


def not_backed(name: str, counts: Sequence[int]) -> str:
    """Why a result does not give a number, as a sentence."""
    _, statistic = split_statistic(name)
    if statistic not in TAILS:
        return f"{name} needs more than one value"
    return f"{name} is not given: it needs {samples_needed(TAILS[statistic]):,} samples and {min(counts):,} were taken"


def unknown_spread(statistic: str) -> str:
    """Why one result does not show how much a statistic differs by itself, as a sentence."""
    tail = f", {samples_needed(TAILS[statistic]):,} or more in each" if statistic in TAILS else ""
    need = f"it needs the samples of the runs{tail}, or a baseline of several results"
    return f"how much {statistic} differs from run to run is not known; {need}"


LIMIT = 0.05

LineAnswer = Literal["green", "red", "cannot tell"]


@dataclass(frozen=True, slots=True)
class RegressionLimits:
    """By how much each number may be worse."""

    worse_than: float = LIMIT
    of: Mapping[str, float] = field(default_factory=dict)
    """Number (`ttft_ms`, `ttft_ms.p99`) → its own limit; it counts even where it is no headline."""
    numbers: tuple[str, ...] = ()
    """Numbers that count instead of the headline ones."""
    level: float = LEVEL

    def limit_of(self, name: str) -> float:
        return next((self.of[key] for key in (name, short_name(name)) if key in self.of), self.worse_than)


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """One number of one job, held against its limit."""

    name: str
    unit: str
    better: Better | None
    limit: float
    baseline: float | None = None
    baseline_interval: Interval | None = None
    value: float | None = None
    value_interval: Interval | None = None
    change: float | None = None
    """Relative, of the new result against the baseline; None where it is not known."""
    interval: Interval | None = None
    """Of `change`."""
    answer: LineAnswer = "cannot tell"
    because: str = ""
    """One plain sentence."""
    results: int = 0
    """Of the baseline that gave this number."""
    chance: float | None = None
    """How often luck alone shows as much for the worse where nothing changed."""


@dataclass(frozen=True, slots=True)
class LimitDraft:
    """A number while the others are not yet known: a line without an answer, and the change it rests on."""

    line: LimitVerdict
    change: RelativeChange | None = None
    runs: int = 0
    """Runs of the smaller side, where one result stands against one."""
    moved: MachineShift | None = None
    """How far the machine itself moved between the two."""

    @property
    def chance(self) -> float:
        """How often luck alone shows as much for the worse where nothing changed."""
        return 1.0 if self.change is None else self.change.chance(_worse(self.line))


def draft_line(pool: ResultPool, name: str, limits: RegressionLimits, by_run: ByRun) -> LimitDraft:
    """One number on both sides with its change, or why there is none."""
    metric, statistic = split_statistic(name)
    old, new = _having(pool.a, metric), _having(pool.b[:1], metric)
    statistics = [stats for _, stats in (*old, *new)]
    # A spread is better small, whatever it is the spread of.
    better = "lower" if statistic == "std" else next((stats.better for stats in statistics if stats.better), None)
    line = LimitVerdict(name, statistics[-1].unit if statistics else "", better, limits.limit_of(name))
    if not old or not new:
        return LimitDraft(replace(line, because=f"{metric} was not measured{' in the baseline' if new else ''}"))
    sides = [[reading_of(job, stats, metric, statistic, by_run) for job, stats in side] for side in (old, new)]
    a, b = ([reading for reading in side if reading is not None] for side in sides)
    if not a or not b:
        return LimitDraft(replace(line, because=not_backed(name, [stats.count for _, stats in (new if a else old)])))
    line = replace(
        line,
        results=len(a),
        baseline=float(np.median([reading.value for reading in a])),
        value=b[0].value,
        baseline_interval=_interval(a, limits.level),
        value_interval=_interval(b, limits.level),
    )
    reason = different_meaning(statistics) or ("" if better else "which direction is better was not declared")
    change = None if reason else change_between_results(a, b)
    if change is None:
        have = f"{count(len(a[0].runs), 'run')} against {count(len(b[0].runs), 'run')}"
        few = f"{have}: each side needs {MIN_RUNS} or more, or the baseline more results"
        spread = few if a[0].runs and b[0].runs else unknown_spread(statistic)
        return LimitDraft(replace(line, because=reason or spread))
    return LimitDraft(line, change, min(len(reading.runs) for reading in (*a, *b)) if len(a) == 1 else 0, pool.moved)


def _having(jobs: Sequence[MultiRunJobResult], metric: str) -> list[tuple[MultiRunJobResult, MetricStatistics]]:
    return [(job, job.metrics[metric]) for job in jobs if metric in job.metrics and job.metrics[metric].run_values]


def _interval(readings: Sequence[ResultReading], level: float) -> Interval | None:
    if len(readings) == 1:
        return between_runs(readings[0].runs, level)
    return between_results([reading.value for reading in readings], level)


def judged_line(draft: LimitDraft, limits: RegressionLimits, *, believed: bool, looked_at: int) -> LimitVerdict:
    """A number with its answer.

    Args:
        believed: Whether its chance is too small for luck, among all numbers that are looked at.
    """
    line, change = draft.line, draft.change
    if change is None:
        return line
    line = replace(line, chance=draft.chance)
    if not change.logarithmic and change.base == 0:
        return _from_zero(line, change, believed=believed)
    line = replace(line, change=change.relative(change.estimate), interval=change.interval(limits.level))
    least, by, most = _worse_by(line)
    if hidden := _hidden(draft, line, believed=believed):
        return replace(line, because=hidden)
    if believed and by > line.limit:
        alone = "; the baseline is one result, which does not show how much days differ" if line.results == 1 else ""
        return replace(line, answer="red", because=f"worse by more than {percent(line.limit)}{alone}")
    if most <= line.limit:
        within = "better" if most < 0 else f"any change for the worse is smaller than {percent(line.limit)}"
        return replace(line, answer="green", because=within)
    if least > 0 and by > line.limit:
        why = f"alone it would be red, but {looked_at} numbers were looked at, and luck shows as much in one of them"
    elif least > 0:
        why = f"worse, but it is undecided whether by more than {percent(line.limit)}"
    else:
        why = f"the change may be none, or worse by more than {percent(line.limit)}"
    return replace(line, because=f"{why}; {_remedy(draft, limits)}")


def _hidden(draft: LimitDraft, line: LimitVerdict, *, believed: bool) -> str:
    """Why the machine itself may explain an answer; empty where it may not.

    A machine that moved as much may be all that a red number shows. One that became faster by more than the limit may
    hide a number that should be red.
    """
    moved, change = draft.moved, line.change
    if moved is None or change is None:
        return ""
    _, by, most = _worse_by(line)
    red = believed and by > line.limit
    faster = most <= line.limit and moved.took < 0 and -moved.took > line.limit
    return moved.explains(change, line.unit) if red or faster else ""


def _worse(line: LimitVerdict) -> int:
    """The direction in which a number gets worse: 1 up, -1 down."""
    return 1 if line.better == "lower" else -1


def _worse_by(line: LimitVerdict) -> tuple[float, float, float]:
    """By how much a number is worse: at least, as it looks, at most."""
    sign, interval, change = _worse(line), line.interval, line.change
    if interval is None or change is None:
        return 0.0, 0.0, 0.0
    ends = sorted((sign * interval.low, sign * interval.high))
    return ends[0], sign * change, ends[1]


def _from_zero(line: LimitVerdict, change: RelativeChange, *, believed: bool) -> LimitVerdict:
    """A number whose baseline is zero: any change for the worse is beyond any share of nothing."""
    now = quantity(line.value or 0.0, line.unit)
    if believed:
        return replace(line, answer="red", because=f"worse: it was 0 in the baseline and is {now}")
    if change.error == 0:
        return replace(line, answer="green", because=f"it was 0 in the baseline and is {now}")
    return replace(line, because=f"it was 0 in the baseline and is {now}, which its runs do not show to be more")


def _remedy(draft: LimitDraft, limits: RegressionLimits) -> str:
    if draft.runs and draft.change is not None and draft.change.error:
        return more_runs(draft.change, draft.runs, limits.level)
    if 1 < draft.line.results < RECOMMENDED_RESULTS:
        return f"{RECOMMENDED_RESULTS} or more baseline results know better how much results differ by themselves"
    return "more runs or a quieter machine would tell"


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
        verdicts = [check.passed for check in self.objectives]
        answers = [line.answer for line in self.lines]
        if self.kind == "invalid" or False in verdicts or "red" in answers:
            return "red"
        if self.kind in ("not measured", "not comparable"):
            return "nothing"
        return "cannot tell" if self.kind == "no baseline" or None in verdicts or "cannot tell" in answers else "green"


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
        """The exit code for a pipeline: 0 green, 1 red, 3 where there was nothing to judge."""
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
    missing = tuple(job for job in matching.only_a if any(job is earlier for earlier in newest))
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
    reasons = (f"the new result is {word}", *((failure.message,) if failure else ()))
    return JobGate(job, "invalid" if job.state == "done" else "not measured", reasons)


def _against(
    alone: JobGate, pair: JobMatch | None, limits: RegressionLimits, chosen: Chosen, by_run: ByRun, *, anyway: bool
) -> tuple[JobGate, tuple[LimitDraft, ...]]:
    """Choose what a job is held against, and find how far each of its numbers is from it."""
    if pair is None:
        return replace(alone, kind="no baseline", because=("no earlier result has this job",)), ()
    pooled = pool(pair, anyway=anyway, sides=SIDES)
    if pooled.refused:
        return replace(alone, kind="not comparable", because=pooled.refused, warnings=pooled.warnings), ()
    used = tuple(job.job for job in pooled.a)
    unpromised = _unpromised(pooled.a, alone.result)
    warnings = (*((unpromised,) if unpromised else ()), *pooled.warnings)
    judged = replace(alone, baseline=used, left_out=pooled.left_out, warnings=warnings, unpromised=unpromised)
    # What the baseline has counts too: a number that is no longer there must not pass unseen.
    names = _numbers((alone.result, pooled.a[0]), limits, chosen)
    return judged, tuple(draft_line(pooled, name, limits, by_run) for name in names)


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
    return tuple(dict.fromkeys(full for name, full_names in named.items() for full in full_names or (name,)))


def _concluded(
    drafts: Sequence[tuple[JobGate, tuple[LimitDraft, ...]]], limits: RegressionLimits
) -> tuple[JobGate, ...]:
    """Give every number its answer, now that all are known."""
    comparable = [draft for _, lines in drafts for draft in lines if draft.change is not None]
    believed = believable([draft.chance for draft in comparable], (1 - limits.level) / 2)
    sure = {id(draft) for draft, is_believed in zip(comparable, believed, strict=True) if is_believed}

    def judged(draft: LimitDraft) -> LimitVerdict:
        return judged_line(draft, limits, believed=id(draft) in sure, looked_at=len(comparable))

    return tuple(replace(job, lines=tuple(map(judged, lines))) for job, lines in drafts)


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
    tallies = (
        (lines.count("red"), len(lines), "number", "worse than the limit"),
        (objectives.count(False), len(objectives), "objective", "missed"),
        (kinds.count("invalid"), len(kinds), "job", "invalid"),
        (kinds.count("not measured"), len(kinds), "job", "not measured"),
        (kinds.count("not comparable"), len(kinds), "job", "not comparable with the baseline"),
        (kinds.count("no baseline"), len(kinds), "job", "without an earlier result"),
        (lines.count("cannot tell"), len(lines), "number", "undecided"),
        (objectives.count(None), len(objectives), "objective", "undecided"),
        (len(missing), len(missing), "job", "of the baseline not in the new result"),
    )
    reasons = tuple(f"{number} of {count(every, thing)} {word}" for number, every, thing, word in tallies if number)
    red = [job for job in jobs if job.unpromised and any(line.answer == "red" for line in job.lines)]
    reasons += tuple(dict.fromkeys(job.unpromised for job in red))
    good = ((len(lines), "number", "within the limit"), (len(objectives), "objective", "met"))
    fine = tuple(f"{count(every, thing)} {word}" for every, thing, word in good if every)
    return reasons or fine or ("every job was measured" if jobs else "the result has no job",)

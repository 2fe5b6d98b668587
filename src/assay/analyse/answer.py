"""What a campaign answers: the best point, the effect of each matrix axis, the reasons for doubt, and what failed.

Facts alone, pure and from the results as they are stored; `assay.report.answer` puts them into words. Nothing here is
more certain than the spread between runs allows: points whose runs do not tell them apart are all best, and an effect
whose interval holds 1 is "cannot tell".
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.checks import ADVISORY, INVALIDATING
from assay.analyse.compare import compare_pool, match_jobs, pool
from assay.analyse.compare.comparability import machine_moved
from assay.analyse.compare.metric import RelativeChange, change_between
from assay.analyse.headline import headline_of_result, is_quality
from assay.analyse.intervals import LEVEL, t_quantile
from assay.analyse.records import Answer, CampaignRecord, Check, Interval, MetricStatistics, MultiRunJobResult, section
from assay.metrics import Better
from assay.plan.job import HOST
from assay.run.records import Failure

Severity = Literal["invalid", "missed", "undecided", "suspect", "advice"]
"""What a reason does to a result: it is invalid; an objective was missed or not decided; it is suspect; or nothing."""
SEVERITIES: tuple[Severity, ...] = ("invalid", "missed", "undecided", "suspect", "advice")
MOST_DOUBTS = 10
# Axes that change how much work one call does: a longer call is no worse, so the work done per second is compared.
_WORK_AXES = frozenset({"workload.batch", "load.concurrency"})
_THROUGHPUTS = ("output_tokens_per_s", "throughput_per_s")
_LATENCIES = ("latency_ms", "e2e_ms", "ttft_ms")
_CAPACITY = "capacity_per_s"
_PERCENT = re.compile(r"(\d[\d,]*(?:\.\d+)?) %")


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A metric that the rows of an answer show."""

    metric: str
    unit: str
    better: Better | None


@dataclass(frozen=True, slots=True)
class AnswerFigure:
    """One number of one job."""

    value: float
    interval: Interval | None
    """From the spread between runs; None for one run."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One job: its figures, and how far they can be trusted."""

    job: str
    index: int
    verdict: str
    """`valid`, `suspect` or `invalid`; the state of a job that has no numbers; `not judged`."""
    figures: tuple[AnswerFigure | None, ...]
    """One for each column; None where it was not measured."""
    doubts: tuple[str, ...]
    """Names of the failed checks, the most serious first."""


@dataclass(frozen=True, slots=True)
class BestPoints:
    """Which jobs are best by the first column."""

    jobs: tuple[str, ...]
    """One job where it is clearly the best; else all whose runs do not separate them from it, the best first."""
    compared: int
    """How many jobs were held against each other."""
    because: str = ""
    """Why more than one is named."""


@dataclass(frozen=True, slots=True)
class AxisEffect:
    """What changing one key of the matrix does, with all others the same."""

    path: str
    """Key of the benchmark file, such as `target.threads`."""
    base: JsonValue
    """The first value in the file."""
    other: JsonValue
    """The best of the other values."""
    metric: str
    better: Better
    points: int
    """Pairs of jobs that differ in this key alone; the effect is their average."""
    gain: float | None
    """How many times as good `other` is as `base`: 2 is half the latency, or twice the throughput."""
    interval: Interval | None
    """Of the gain."""
    answer: Answer
    """Whether `other` is better or worse than `base`."""
    because: str = ""
    """Why it is "cannot tell"."""
    extremes: tuple[float, float] | None = None
    """The smallest and the largest gain of a pair, where the pairs clearly differ."""


@dataclass(frozen=True, slots=True)
class SearchedCapacity:
    """What a search for the highest rate found for one job."""

    job: str
    figure: AnswerFigure | None
    """None where no rate met the objective."""
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class DoubtGroup:
    """One reason for doubt over all jobs that it concerns."""

    check: str
    """Name of the check, or of the objective."""
    severity: Severity
    jobs: tuple[str, ...]
    worst_job: str
    worst: str
    """The sentence of the job in which it is worst, with its figures and limits."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that failed for the same reason."""

    code: str
    phase: str
    jobs: tuple[str, ...]
    message: str
    """Of the first of them."""
    try_: str


@dataclass(frozen=True, slots=True)
class BaselineAnswer:
    """How many jobs moved against an earlier campaign, by the first column."""

    campaign: str
    better: int
    worse: int
    cannot_tell: int
    not_alike: int
    """Jobs that do not answer the same question: another model, machine or setting."""
    difference: str = ""
    """What differs, for the first of those."""


@dataclass(frozen=True, slots=True)
class CampaignAnswer:
    """All that a reader wants to know first."""

    columns: tuple[AnswerColumn, ...]
    """The metric that answers the question first; empty where nothing was measured."""
    rows: tuple[AnswerRow, ...]
    """The best first; jobs without numbers last, in their order."""
    best: BestPoints | None
    """None where fewer than two jobs can be ranked."""
    effects: tuple[AxisEffect, ...]
    capacities: tuple[SearchedCapacity, ...]
    baseline: BaselineAnswer | None
    doubts: tuple[DoubtGroup, ...]
    """The most serious first, then those of most jobs; at most ten."""
    more_doubts: int
    """Reasons beyond those."""
    failures: tuple[FailureGroup, ...]
    verdicts: Mapping[str, int]
    """Verdict or state → jobs."""


def answer_of(record: CampaignRecord, baseline: CampaignRecord | None = None) -> CampaignAnswer:
    """Draw the answer from the results of a campaign.

    Args:
        baseline: an earlier campaign to hold this one against.
    """
    usable = [job for job in record.jobs if job.state == "done" and job.verdict != "invalid"]
    measured = [job for job in record.jobs if job.state == "done" and job.metrics]
    columns = _columns(usable or measured)
    metric = columns[0].metric if columns else ""
    doubts = _doubts(record.jobs)
    return CampaignAnswer(
        columns=columns,
        rows=_rows(record.jobs, columns),
        best=_best(usable, columns),
        effects=_effects(usable, columns),
        capacities=tuple(_capacity(job) for job in record.jobs if _searches(job) and job.state == "done"),
        baseline=_against(record, baseline, metric) if baseline is not None and metric else None,
        doubts=tuple(doubts[:MOST_DOUBTS]),
        more_doubts=max(len(doubts) - MOST_DOUBTS, 0),
        failures=_failures(record.jobs),
        verdicts=Counter(_word(job) for job in record.jobs),
    )


def _word(job: MultiRunJobResult) -> str:
    return job.state if job.state != "done" else job.verdict or "not judged"


# --- the table


def _columns(jobs: Sequence[MultiRunJobResult]) -> tuple[AnswerColumn, ...]:
    """The metric that most jobs are about, what stands beside it (throughput beside latency), the other headlines."""
    headlines = [names for job in jobs if (names := headline_of_result(job))]
    if not headlines:
        return ()
    firsts = Counter(names[0] for names in headlines)
    primary = _CAPACITY if firsts[_CAPACITY] else max(firsts, key=lambda name: firsts[name])
    beside = _LATENCIES if primary in _THROUGHPUTS else _THROUGHPUTS if primary in _LATENCIES else ()
    given = dict.fromkeys(name for job in jobs for name in job.metrics)
    companion = [name for name in beside if name in given][:1]
    shown = dict.fromkeys([primary, *companion, *(name for names in headlines for name in names)])
    return tuple(_column(name, jobs) for name in shown)


def _column(name: str, jobs: Sequence[MultiRunJobResult]) -> AnswerColumn:
    found = [job.metrics[name] for job in jobs if name in job.metrics]
    return AnswerColumn(name, found[0].unit, next((stats.better for stats in found if stats.better), None))


def _rows(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> tuple[AnswerRow, ...]:
    rows = [
        AnswerRow(
            job.job,
            job.index,
            _word(job),
            tuple(_figure(job, column.metric) for column in columns),
            tuple(check.name for _, check in sorted(_reasons(job), key=lambda reason: SEVERITIES.index(reason[0]))),
        )
        for job in jobs
    ]
    better = columns[0].better if columns else None

    def place(row: AnswerRow) -> tuple[bool, float, int]:
        figure = row.figures[0] if row.figures else None
        sign = {"lower": 1.0, "higher": -1.0, None: 0.0}[better]
        return figure is None, sign * figure.value if figure else 0.0, row.index

    return tuple(sorted(rows, key=place))


def _figure(job: MultiRunJobResult, metric: str) -> AnswerFigure | None:
    stats = job.metrics.get(metric) if job.state == "done" else None
    if stats is None:
        return None
    return AnswerFigure(stats.mean if is_quality(metric) else stats.median, stats.interval)


# --- the best point and the axes


def _run_values(stats: MetricStatistics) -> NDArray[np.float64]:
    return np.array(list(stats.run_values.values()), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two jobs and the change from the first to the second; none where the runs or the machine forbid to say it."""

    change: RelativeChange | None
    machine: float = 0.0
    """How far the machine itself moved meanwhile, as a logarithm that counts in both directions."""

    def interval(self, level: float) -> tuple[float, float] | None:
        if self.change is None:
            return None
        half = t_quantile(level, self.change.df) * self.change.error if self.change.error else 0.0
        return self.change.estimate - half, self.change.estimate + half


def _pair(a: MultiRunJobResult, b: MultiRunJobResult, metric: str) -> _Pair | None:
    """The change of a metric from one job to another on the log scale; None where either did not measure it."""
    if metric not in a.metrics or metric not in b.metrics:
        return None
    left, right = _run_values(a.metrics[metric]), _run_values(b.metrics[metric])
    if min(left.size, right.size) < 2:
        return _Pair(None)
    change = change_between(left, right)
    if not change.logarithmic:
        return _Pair(None)
    moved = machine_moved((a,), (b,), anyway=True)
    explained = moved is not None and moved.explains(math.expm1(change.estimate), a.metrics[metric].unit)
    return _Pair(change, abs(math.log1p(moved.took)) if moved is not None and explained else 0.0)


def _best(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> BestPoints | None:
    """The best job with those that its runs do not separate from it; each is held against the best."""
    better = columns[0].better if columns else None
    if better is None:
        return None
    metric = columns[0].metric
    ranked = sorted(
        (job for job in jobs if metric in job.metrics),
        key=lambda job: job.metrics[metric].median * (1 if better == "lower" else -1),
    )
    if len(ranked) < 2:
        return None
    level = 1 - (1 - LEVEL) / (len(ranked) - 1)
    first, *others = ranked
    pairs = [(job, _pair(first, job, metric)) for job in others]
    level_with = [job for job, pair in pairs if pair is None or _undecided(pair, level)]
    because = ""
    if level_with:
        single = any(job.metrics[metric].runs < 2 for job in (first, *level_with))
        because = "one run does not show how much runs differ" if single else "they differ less than the runs do"
    return BestPoints((first.job, *(job.job for job in level_with)), len(ranked), because)


def _undecided(pair: _Pair, level: float) -> bool:
    ends = pair.interval(level)
    return ends is None or pair.machine > 0 or ends[0] <= 0 <= ends[1]


def _effects(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> tuple[AxisEffect, ...]:
    axes = list(_axes(jobs))
    # Each further axis is one more chance to see an effect by luck.
    level = 1 - (1 - LEVEL) / max(len(axes), 1)
    found = (_effect(jobs, path, columns, level) for path in axes)
    return tuple(effect for effect in found if effect is not None)


def _axes(jobs: Sequence[MultiRunJobResult]) -> Iterator[str]:
    """The keys of the matrix that have more than one value."""
    for path in dict.fromkeys(path for job in jobs for path in job.point if path != HOST):
        if len({_text(job.point[path]) for job in jobs if path in job.point}) > 1:
            yield path


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _effect(
    jobs: Sequence[MultiRunJobResult], path: str, columns: Sequence[AnswerColumn], level: float
) -> AxisEffect | None:
    """The effect of one axis: of its values, the best against the first in the file."""
    column = _column_for(path, jobs, columns)
    if column is None or column.better is None:
        return None
    by_value: dict[str, dict[str, MultiRunJobResult]] = {}
    for job in jobs:
        if path in job.point:
            rest = _text({key: value for key, value in job.point.items() if key != path})
            by_value.setdefault(_text(job.point[path]), {})[rest] = job
    base, *others = by_value
    pairs = {
        other: [
            pair
            for rest, job in by_value[base].items()
            if rest in by_value[other] and (pair := _pair(job, by_value[other][rest], column.metric)) is not None
        ]
        for other in others
    }
    pairs = {other: found for other, found in pairs.items() if found}
    if not pairs:
        return None
    sign = -1.0 if column.better == "lower" else 1.0
    chosen = max(pairs, key=lambda other: sign * _average(pairs[other]))
    each = 1 - (1 - level) / len(others)  # and so is each further value
    return _concluded(path, json.loads(base), json.loads(chosen), column, pairs[chosen], each)


def _column_for(path: str, jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> AnswerColumn | None:
    if path in _WORK_AXES:
        for name in _THROUGHPUTS:
            if jobs and all(name in job.metrics for job in jobs):
                return _column(name, jobs)
        return None
    return columns[0] if columns else None


def _average(pairs: Sequence[_Pair]) -> float:
    estimates = [pair.change.estimate for pair in pairs if pair.change is not None]
    return sum(estimates) / len(estimates) if estimates else 0.0


def _concluded(
    path: str, base: JsonValue, other: JsonValue, column: AnswerColumn, pairs: Sequence[_Pair], level: float
) -> AxisEffect:
    """The average effect over pairs of jobs: the error of each counts, so nothing is taken to be equal among them."""
    better = column.better or "lower"
    changes = [pair.change for pair in pairs if pair.change is not None]
    if len(changes) < len(pairs):
        why = "one run does not show how much runs differ"
        return AxisEffect(path, base, other, column.metric, better, len(pairs), None, None, "cannot tell", why)
    variance = sum(change.error**2 for change in changes)
    freedom = sum(change.error**4 / change.df for change in changes)
    half = t_quantile(level, max(variance**2 / freedom, 1.0)) * math.sqrt(variance) / len(changes) if freedom else 0.0
    centre = _average(pairs)
    ends = sorted(_gain(value, better) for value in (centre - half, centre + half))
    interval = Interval(ends[0], ends[1], level, f"Welch's t, the average of {len(changes)} pairs of jobs")
    answer, because = _judged(interval, [pair.machine for pair in pairs], centre)
    return AxisEffect(
        path, base, other, column.metric, better, len(pairs), _gain(centre, better), interval, answer, because,
        _extremes(pairs, better, level),
    )  # fmt: skip


def _gain(change: float, better: Better) -> float:
    """A change on the log scale as how many times as good it is."""
    return math.exp(min(-change if better == "lower" else change, 700.0))


def _judged(interval: Interval, machine: Sequence[float], centre: float) -> tuple[Answer, str]:
    if interval.low <= 1 <= interval.high:
        return "cannot tell", "the difference is within the spread between runs"
    if sum(machine) / len(machine) >= abs(centre):
        return "cannot tell", "the machine itself moved by as much between these jobs"
    return ("better", "") if interval.low > 1 else ("worse", "")


def _extremes(pairs: Sequence[_Pair], better: Better, level: float) -> tuple[float, float] | None:
    """The smallest and the largest gain of a pair, where no single gain fits the intervals of both."""
    if len(pairs) < 2:
        return None
    each = 1 - (1 - level) / len(pairs)
    ends = [found for pair in pairs if (found := pair.interval(each)) is not None]
    if max(low for low, _ in ends) <= min(high for _, high in ends):
        return None
    gains = sorted(_gain(pair.change.estimate, better) for pair in pairs if pair.change is not None)
    return gains[0], gains[-1]


# --- capacity and baseline


def _searches(job: MultiRunJobResult) -> bool:
    return section(job.definition, "load").get("rate") == "search"


def _capacity(job: MultiRunJobResult) -> SearchedCapacity:
    figure = _figure(job, _CAPACITY)
    absent = (run.absent[_CAPACITY] for run in job.runs if _CAPACITY in run.absent)
    return SearchedCapacity(job.job, figure, "" if figure else next(absent, "no search found a rate"))


def _against(record: CampaignRecord, baseline: CampaignRecord, metric: str) -> BaselineAnswer:
    """Count how the jobs moved against those of an earlier campaign."""
    answers: Counter[str] = Counter()
    difference = ""
    for match in match_jobs((baseline,), (record,)).pairs:
        chosen = pool(match)
        if chosen.refused:
            answers["not alike"] += 1
            difference = difference or chosen.refused[0]
        else:
            lines = [line for line in compare_pool(chosen).lines if line.metric == metric]
            answers.update(line.answer for line in lines)
    return BaselineAnswer(
        baseline.campaign,
        answers["better"],
        answers["worse"],
        answers["cannot tell"],
        answers["not alike"],
        difference,
    )


# --- doubts and failures


def _reasons(job: MultiRunJobResult) -> Iterator[tuple[Severity, Check]]:
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


def _doubts(jobs: Iterable[MultiRunJobResult]) -> list[DoubtGroup]:
    """The reasons for doubt, each once, with the jobs that it concerns."""
    groups: dict[tuple[Severity, str], list[tuple[str, str]]] = {}
    for job in jobs:
        for severity, check in _reasons(job):
            groups.setdefault((severity, check.name), []).append((job.job, check.detail))
    found = [
        DoubtGroup(name, severity, tuple(job for job, _ in entries), *max(entries, key=lambda entry: _size(entry[1])))
        for (severity, name), entries in groups.items()
    ]
    return sorted(found, key=lambda group: (SEVERITIES.index(group.severity), -len(group.jobs)))


def _size(sentence: str) -> float:
    """How bad a check's sentence is beside others of the same check: the first share that it names."""
    match = _PERCENT.search(sentence)
    return float(match[1].replace(",", "")) if match else 0.0


def _failures(jobs: Iterable[MultiRunJobResult]) -> tuple[FailureGroup, ...]:
    """Jobs without numbers, by the code of what went wrong; those of most jobs first."""
    groups: dict[str, list[MultiRunJobResult]] = {}
    for job in jobs:
        if job.state in ("failed", "poisoned"):
            error = _error(job)
            groups.setdefault(error.code if error else "unknown", []).append(job)
    found = [_failure(code, members) for code, members in groups.items()]
    return tuple(sorted(found, key=lambda group: -len(group.jobs)))


def _failure(code: str, jobs: Sequence[MultiRunJobResult]) -> FailureGroup:
    names, error = tuple(job.job for job in jobs), _error(jobs[0])
    if error is None:
        return FailureGroup(code, "", names, "no reason was recorded", "")
    return FailureGroup(code, error.phase, names, error.message, error.try_)


def _error(job: MultiRunJobResult) -> Failure | None:
    """A job's own error, else that of its first failed run."""
    return job.error or next((run.error for run in job.runs if run.error), None)

"""Which point is best and what each axis of the matrix does, no more certain than the spread between runs allows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from assay.analyse.answer.records import AnswerColumn, AxisEffect, BestPoints, BestQuality
from assay.analyse.compare.comparability import machine_moved
from assay.analyse.compare.metric import RelativeChange, change_of, run_values
from assay.analyse.headline import centre_of
from assay.analyse.intervals import LEVEL, t_quantile
from assay.analyse.records import Answer, Interval, MultiRunJobResult
from assay.metrics import Better
from assay.plan.job import HOST

THROUGHPUTS = ("output_tokens_per_s", "throughput_per_s")
# Axes that change how much work one call does: a longer call is no worse, so the work done per second is compared.
_WORK_AXES = frozenset({"workload.batch", "load.concurrency"})


# A judgement is a share or a number of points; whatever has another unit says how fast or how much.
_UNITS_OF_QUALITY = ("", "%")


def column_of(name: str, jobs: Sequence[MultiRunJobResult], *, is_score: bool = False) -> AnswerColumn:
    """A metric as the jobs give it; at least one of them has it."""
    known = [job.metrics[name] for job in jobs if name in job.metrics]
    unit, better = known[0].unit, next((stats.better for stats in known if stats.better), None)
    return AnswerColumn(name, unit, better, is_score or (better is not None and unit in _UNITS_OF_QUALITY))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two jobs and the change from the first to the second; none where the runs or the machine forbid to say it."""

    change: RelativeChange | None
    machine: float = 0.0
    """How far the machine itself moved meanwhile, as a logarithm that counts in both directions."""

    def interval(self, level: float) -> tuple[float, float] | None:
        return None if self.change is None else self.change.ends(level)


def _pair(a: MultiRunJobResult, b: MultiRunJobResult, metric: str) -> _Pair | None:
    """The change of a metric from one job to another on the log scale; None where either did not measure it."""
    if metric not in a.metrics or metric not in b.metrics:
        return None
    left, right = run_values(a.metrics[metric]), run_values(b.metrics[metric])
    if min(left.size, right.size) < 2:
        return _Pair(None)
    change = change_of(metric, a.metrics[metric], b.metrics[metric])
    if not change.logarithmic:
        return _Pair(None)
    moved = machine_moved((a,), (b,), anyway=True)
    explained = moved is not None and moved.explains(math.expm1(change.estimate), a.metrics[metric].unit)
    return _Pair(change, abs(math.log1p(moved.took)) if moved is not None and explained else 0.0)


def best_of(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> BestPoints | None:
    """The best job with those that its runs do not separate from it; each is held against the best."""
    better = columns[0].better if columns else None
    if better is None:
        return None
    metric = columns[0].metric
    ranked = _ranked(jobs, columns[0])
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


def best_quality_of(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> BestQuality | None:
    """The jobs whose answers are best, by the first column beside the headline that judges them."""
    column = next((column for column in columns[1:] if column.is_quality and column.better), None)
    if column is None or columns[0].is_quality:
        return None
    ranked = _ranked(jobs, column)
    if len(ranked) < 2:
        return None
    level = 1 - (1 - LEVEL) / (len(ranked) - 1)
    best, *others = ranked
    level_with = [job.job for job in others if not _differ(best, job, column.metric, level)]
    return BestQuality(column, (best.job, *level_with))


def _ranked(jobs: Sequence[MultiRunJobResult], column: AnswerColumn) -> list[MultiRunJobResult]:
    sign = 1 if column.better == "lower" else -1
    measured = [job for job in jobs if column.metric in job.metrics]
    return sorted(measured, key=lambda job: sign * centre_of(job.metrics[column.metric], column.metric))


def _differ(a: MultiRunJobResult, b: MultiRunJobResult, metric: str, level: float) -> bool:
    """Whether two jobs differ by more than their runs; of one run each, whether they differ at all.

    The same answers are judged alike in every run, so that one run says more of a score than of a time.
    """
    left, right = run_values(a.metrics[metric]), run_values(b.metrics[metric])
    if min(left.size, right.size) < 2:
        return centre_of(a.metrics[metric], metric) != centre_of(b.metrics[metric], metric)
    low, high = change_of(metric, a.metrics[metric], b.metrics[metric]).ends(level)
    return not low <= 0 <= high


def _undecided(pair: _Pair, level: float) -> bool:
    ends = pair.interval(level)
    return ends is None or pair.machine > 0 or ends[0] <= 0 <= ends[1]


def effects_of(jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> tuple[AxisEffect, ...]:
    axes = list(_axes(jobs))
    # Each further axis is one more chance to see an effect by luck.
    level = 1 - (1 - LEVEL) / max(len(axes), 1)
    effects = (_effect(jobs, path, columns, level) for path in axes)
    return tuple(effect for effect in effects if effect is not None)


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
    pairs = {other: members for other, members in pairs.items() if members}
    if not pairs:
        return None
    sign = -1.0 if column.better == "lower" else 1.0
    chosen = max(pairs, key=lambda other: sign * _average(pairs[other]))
    each = 1 - (1 - level) / len(others)  # and so is each further value
    return _concluded(path, json.loads(base), json.loads(chosen), column, pairs[chosen], each)


def _column_for(path: str, jobs: Sequence[MultiRunJobResult], columns: Sequence[AnswerColumn]) -> AnswerColumn | None:
    if path in _WORK_AXES:
        for name in THROUGHPUTS:
            if jobs and all(name in job.metrics for job in jobs):
                return column_of(name, jobs)
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
    variance = sum(change.largest_error**2 for change in changes)
    freedom = sum(change.largest_error**4 / change.df for change in changes)
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
    ends = [interval for pair in pairs if (interval := pair.interval(each)) is not None]
    if max(low for low, _ in ends) <= min(high for _, high in ends):
        return None
    gains = sorted(_gain(pair.change.estimate, better) for pair in pairs if pair.change is not None)
    return gains[0], gains[-1]

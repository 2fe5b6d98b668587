"""Checks of the numbers themselves, and the objectives of the file held against them: met, missed or cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from assay.analyse.capacity.probe import ALPHA, limit_sentence, share_held
from assay.analyse.checks.evidence import NOTHING_MEASURED, CheckEvidence, Finding
from assay.analyse.headline import is_quality
from assay.analyse.intervals import TAILS, median_interval_of_run, relative_half_width, samples_needed
from assay.analyse.records import Check, Interval, MetricStatistics
from assay.analyse.settling import Course
from assay.analyse.text import count, listed, percent, quantity, run_name, run_names
from assay.plan.job import Job

# A level run is taken for a drifting one at most once in thirty times, so one run of five may be chance.
_DRIFTING_RUNS = 0.2
_VARIES = "the load itself changed while it was measured, so one level of the times is not expected"


def something_measured(evidence: CheckEvidence) -> Finding:
    """Whether there is any number at all that answers the job's question."""
    values = sum(evidence.metrics[name].count for name in evidence.headline)
    if values:
        return True, f"{listed(evidence.headline)} has {count(values, 'value')}"
    return False, "no run gave a finite value of the metric that this job is about"


def enough_samples(evidence: CheckEvidence) -> Finding:
    """Whether each run's own median is known as closely as the file asks."""
    if evidence.is_program:
        return None, "a program decides by itself how many values it reports; the runs are what is counted"
    if evidence.load_varies:
        return None, _VARIES
    measured = {key: values for key, values in evidence.measured().items() if values.size}
    if not measured:
        return None, "no samples were taken inside the runs"
    wanted = evidence.job.definition.load.requests or evidence.job.definition.measure.until.samples
    if wanted is not None:
        fewest = min(values.size for values in measured.values())
        return fewest >= wanted, f"every run took at least {count(fewest, 'sample')}; {wanted:,} were asked for"
    return _medians_known(evidence)


def _medians_known(evidence: CheckEvidence) -> Finding:
    """Compare the widest interval of a run's median with the one that the file asks for."""
    measure = evidence.job.definition.measure
    # How long a service is loaded is what the file says, not when a median is known: the wider promise is enough.
    target = max(measure.until.interval, measure.interval) if evidence.is_served else measure.until.interval
    widths: dict[tuple[int, str], float] = {}
    for (run, metric), values in evidence.measured().items():
        interval = median_interval_of_run(values)
        if interval is None:
            need = "too few to say how well its median is known"
            return False, f"{run_name(run)} took {count(values.size, 'sample')} of {metric}, {need}"
        widths[run, metric] = relative_half_width(interval)
    run, metric = max(widths, key=lambda key: widths[key])
    precision = f"{metric} is known to ±{percent(widths[run, metric])} or better inside every run"
    if widths[run, metric] <= target:
        return True, f"the median of {precision}"
    worst = f"the median of {metric} is known only to ±{percent(widths[run, metric])} in {run_name(run)}"
    return False, f"{worst} (asked for: ±{percent(target)}), so measure longer"


def warm_up_over(evidence: CheckEvidence) -> Finding:
    """Whether no warm-up is left among the measured times: they were level before, or were level while measured."""
    inside = {run: fact.get("warmup") for run, fact in evidence.facts("load").items()}
    warm_ups = {**{run: fact for run, fact in inside.items() if isinstance(fact, Mapping)}, **evidence.facts("warmup")}
    verdicts = {run: fact.get("steady") for run, fact in warm_ups.items()}
    detected = {run: steady for run, steady in verdicts.items() if isinstance(steady, bool)}
    if not detected:
        return None, "the length of the warm-up was set by the file, so whether it was enough is not known"
    unsure = [run for run, steady in detected.items() if not steady]
    courses = evidence.courses() if unsure else {}
    level = {run for (run, _), course in courses.items() if course.shape and course.settled is not False}
    early = [run for run in unsure if run not in level]
    if early:
        ended = f"in {len(early)} of {count(len(detected), 'run')} ({run_names(early)})"
        return False, f"{ended} times had not settled when the warm-up ended, nor while they were measured"
    if unsure:
        noisy = f"in {len(unsure)} of {count(len(detected), 'run')} the warm-up reached its time limit on noisy times"
        return True, f"{noisy}, but the measured times were level"
    return True, f"times were level at the end of the warm-up in all {count(len(detected), 'run')}"


def steady_state(evidence: CheckEvidence) -> Finding:
    """Whether the measured window is about the level at which the run ended."""
    if evidence.load_varies:
        return None, _VARIES
    every = evidence.courses()
    seen = {key: levels for key, levels in every.items() if levels.shape is not None}
    if not seen:
        return None, next((levels.detail for levels in every.values()), "there are no samples in which to see a drift")
    moved = {key: levels for key, levels in seen.items() if levels.settled is False}
    run, metric = next(iter(moved or seen))
    if evidence.is_program:
        example = f"{metric} in {run_name(run)}: {seen[run, metric].detail}"
        return None, f"not judged, since a program may report what should move; {example}"
    runs, drifting = {run for run, _ in seen}, {run for run, _ in moved}
    if len(drifting) > _DRIFTING_RUNS * len(runs):
        worst = f"{metric} in {run_name(run)}: {moved[run, metric].detail}"
        return False, f"{len(drifting)} of {count(len(runs), 'run')} had not settled while they were measured; {worst}"
    level = f"{len(runs - drifting)} of {count(len(runs), 'run')} were level while they were measured"
    return True, "; ".join((level, *_shapes(seen)))


def _shapes(seen: Mapping[tuple[int, str], Course]) -> list[str]:
    """What runs went through that were not flat: how many, and one of them."""
    named = []
    for shape in ("warm-up", "slow-down", "inconsistent"):
        alike = [(run, metric) for (run, metric), levels in seen.items() if levels.shape == shape]
        if alike:
            run, metric = alike[0]
            runs = count(len({run for run, _ in alike}), "run")
            named.append(f"{shape} in {runs} ({metric} in {run_name(run)}: {seen[run, metric].detail})")
    return named


def tail_backed(evidence: CheckEvidence) -> Finding:
    """Whether the percentiles that the objective names are backed by the number of samples."""
    relied = [name.rsplit(".", 1) for name in evidence.job.definition.objective]
    for metric, statistic in relied:
        stats = evidence.metrics.get(metric)
        if stats is not None and statistic in TAILS and getattr(stats, statistic) is None:
            needed = samples_needed(TAILS[statistic])
            shortfall = f"which needs {needed:,} samples; {stats.count:,} were taken"
            return False, f"the objective names {metric}.{statistic}, {shortfall}"
    if not evidence.headline:
        return NOTHING_MEASURED
    return _highest_given(evidence)


def _highest_given(evidence: CheckEvidence) -> Finding:
    """Name the highest percentile that is given and, with its price, the next one that is not."""
    # The metric with samples tells the tail; a number of the whole run has none.
    sampled = {name: evidence.metrics[name].count for name in evidence.speed}
    sampled = {name: n for name, n in sampled.items() if n > evidence.metrics[name].runs}
    name = min(sampled, key=lambda key: sampled[key], default="")
    name = name or max(evidence.metrics, key=lambda key: evidence.metrics[key].count)
    n = evidence.metrics[name].count
    backed_names = [key for key, p in TAILS.items() if n >= samples_needed(p)]
    missing = [key for key in TAILS if key not in backed_names]
    rest = f"{missing[0]} is left out, since it needs {samples_needed(TAILS[missing[0]]):,}" if missing else ""
    if not backed_names:
        return None, f"no percentile above the median is given: {count(n, 'value')} of {name}; {rest}"
    return True, "; ".join(filter(None, (f"{count(n, 'sample')} of {name} back {backed_names[-1]}", rest)))


def errors_few(evidence: CheckEvidence) -> Finding:
    """Whether no more runs, and no more requests of a run, failed than the file tolerates."""
    limit = evidence.job.definition.measure.errors
    total = max(len(evidence.runs), 1)
    failed = len(evidence.runs) - len(evidence.good)
    runs = f"{failed} of {count(total, 'run')} failed"
    if not evidence.runs or failed / total > limit:
        return False, f"{runs}; {percent(limit)} is tolerated" if evidence.runs else "no run was made"
    # Each probe of a search is judged with its own errors: those of rates that are too high are what it looks for.
    share = None if evidence.job.definition.load.rate == "search" else evidence.worst("error_rate")
    if share is None:
        return True, runs
    requests = f"{percent(share)} of the requests failed{_kinds(evidence)}"
    if share > limit:
        return False, f"{requests}; {percent(limit)} is tolerated (measure.errors)"
    return True, f"{runs}; {requests}" if share else f"{runs}, and no request failed"


def _kinds(evidence: CheckEvidence) -> str:
    """The failures of all runs by kind, in words: ` (3 × timeout, 1 × reset)`."""
    totals: dict[str, int] = {}
    for kinds in evidence.facts("errors").values():
        for kind, tally in kinds.items():
            number = tally.get("count") if isinstance(tally, Mapping) else tally
            totals[kind] = totals.get(kind, 0) + (number if isinstance(number, int) else 0)
    ranked = sorted((kind for kind in totals if totals[kind]), key=lambda kind: -totals[kind])
    return f" ({listed([f'{totals[kind]:,} × {kind}' for kind in ranked])})" if ranked else ""


def values_finite(evidence: CheckEvidence) -> Finding:
    """Whether all values are numbers; NaN and infinities are kept as samples and left out of the statistics."""
    of_runs = [value for run in evidence.good for value in run.metrics.values()]
    # A request without a reference has no score, and one without an answer no time to its first token.
    looked_at = {key: values for key, values in evidence.values().items() if not is_quality(key[1])}
    sampled = [values for key, values in looked_at.items() if not evidence.is_served or key[1] in evidence.headline]
    bad = sum(not math.isfinite(value) for value in of_runs) + sum(
        int((~np.isfinite(array)).sum()) for array in sampled
    )
    values = len(of_runs) + sum(array.size for array in sampled)
    if bad:
        return False, f"{bad:,} of {count(values, 'value')} are not finite numbers and are left out of the statistics"
    return True, f"all {count(values, 'value')} are finite numbers"


# Metric → run id → the values that it gave.
ByRun = Mapping[str, Mapping[int, NDArray[np.float64]]]


def gates_of(job: Job, metrics: Mapping[str, MetricStatistics], values: ByRun | None = None) -> tuple[Check, ...]:
    """One check per objective; what was not measured is neither met nor missed.

    Args:
        values: What each run gave, where it is known: a percentile that is too close to its limit stays undecided.
    """
    objective = job.definition.objective
    # Each of several limits is one more chance to be missed by luck.
    alpha = ALPHA / max(len(objective), 1)
    return tuple(_gate(name, limit, metrics, values or {}, alpha) for name, limit in objective.items())


def _gate(name: str, limit: float, metrics: Mapping[str, MetricStatistics], values: ByRun, alpha: float) -> Check:
    metric, _, statistic = name.rpartition(".")
    # A program may report one metric under several labels; the objective holds for each of them.
    matches = {label: stats for label, stats in metrics.items() if label == metric or label.startswith(f"{metric}{{")}
    if not matches:
        return Check(name, None, f"{metric} was not measured")
    parts = [_held(label, statistic, limit, stats, values.get(label), alpha) for label, stats in matches.items()]
    answers = [passed for passed, _ in parts]
    passed = False if False in answers else None if None in answers else True
    return Check(name, passed, "; ".join(sentence for _, sentence in parts))


def _held(
    label: str,
    statistic: str,
    limit: float,
    stats: MetricStatistics,
    by_run: Mapping[int, NDArray[np.float64]] | None,
    alpha: float,
) -> tuple[bool | None, str]:
    value: float | None = getattr(stats, statistic)
    name = f"{label}.{statistic}"
    if value is None:
        return None, _not_given(name, statistic, stats)
    if stats.better is None:
        return None, f"{name} is {quantity(value, stats.unit)}, and which direction is better was not declared"
    met = value <= limit if stats.better == "lower" else value >= limit
    sentence = limit_sentence(name, value, stats, limit)
    if statistic in TAILS and by_run:
        answer, detail = _tail(TAILS[statistic], limit, by_run, higher=stats.better == "higher", alpha=alpha)
        return answer, sentence + detail
    interval = _interval(label, statistic, stats)
    if interval is not None and interval.low <= limit <= interval.high:
        sentence += ", which lies inside the interval between runs, so another measurement may end on the other side"
    return met, sentence


def _not_given(name: str, statistic: str, stats: MetricStatistics) -> str:
    if statistic not in TAILS:
        return f"{name} needs more than {stats.count:,} value"
    return f"{name} is not given: it needs {samples_needed(TAILS[statistic]):,} samples and {stats.count:,} were taken"


def _tail(
    share: float, limit: float, by_run: Mapping[int, NDArray[np.float64]], *, higher: bool, alpha: float
) -> tuple[bool | None, str]:
    """Whether a percentile keeps its limit, by the samples beyond it; None where these are too close to what may be."""
    parts = [values[np.isfinite(values)] for values in by_run.values()]
    held = share_held(parts, share, limit, higher=higher, alpha=alpha)
    samples = sum(values.size for values in parts)
    detail = f" ({percent(held.beyond)} of {samples:,} samples beyond it, {percent(held.allowed)} may be)"
    close = ": too close to tell, by the samples and the spread between runs"
    return held.meets, detail + (close if held.meets is None else "")


def _interval(label: str, statistic: str, stats: MetricStatistics) -> Interval | None:
    """The interval of a statistic itself, from what each run gave of it; None where it has none."""
    if statistic == "mean":
        return stats.interval if is_quality(label) else stats.mean_interval
    return stats.interval if statistic in ("median", "p50") and not is_quality(label) else None

"""What rules may be about, from what was measured and what was found."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.alert.records import Event, FindingSummary
from assay.alert.rules import Rule, is_for
from assay.alert.wording import for_so_long
from assay.analyse.headline import is_quality, split_statistic
from assay.analyse.intervals import between_runs
from assay.analyse.records import Interval, MetricStatistics, MultiRunJobResult
from assay.analyse.series.identity import identity, machine_kind
from assay.analyse.summary import measured_values
from assay.metrics import base_name
from assay.plan.job import content_hash
from assay.report.wording import failure_sentence, job_label
from assay.run.records import SampleSet
from assay.store.overview import EndedJob, LostAgent

if TYPE_CHECKING:
    from assay.series.repository import KnownFinding

Samples = Callable[[int], Sequence[SampleSet]]
"""Number of a run → its samples."""

# Statistics whose doubt is that of the middle of a run.
_MIDDLE = frozenset({"mean", "median", "p50"})
_OF_SAMPLES: Mapping[str, Callable[[NDArray[np.float64]], float]] = {
    "p90": lambda values: float(np.quantile(values, 0.9)),
    "p95": lambda values: float(np.quantile(values, 0.95)),
    "p99": lambda values: float(np.quantile(values, 0.99)),
    "p99_9": lambda values: float(np.quantile(values, 0.999)),
    "min": lambda values: float(values.min()),
    "max": lambda values: float(values.max()),
    "std": lambda values: float(values.std(ddof=1)),
}


def of_result(
    result: MultiRunJobResult,
    rules: Sequence[Rule],
    *,
    benchmark: str,
    campaign: str,
    at: float,
    labels: Mapping[str, str] | None = None,
    samples: Samples | None = None,
) -> tuple[Event, ...]:
    """What the result of a job tells: that it failed, or that it did not and what it measured.

    Args:
        samples: reads the samples of a run; without it, nothing is known of how far a percentile may be off.
    """
    label = job_label(result.point, result.definition)
    own = [rule for rule in rules if is_for(rule, benchmark)]
    ended = EndedJob(at, result.job, campaign, benchmark, label, result.state == "done", _why(result))
    if result.state == "failed":
        return (of_ended(ended),)
    if result.state != "done":
        return ()
    back = Event(
        "recovered",
        at,
        benchmark,
        f"result:{result.job}",
        of="silent",
        benchmark=benchmark,
        reason="a result came",
        job=result.job,
        campaign=campaign,
    )
    limits = _limits(result, own, label, ended, labels or {}, samples)
    return (of_ended(ended), back, *limits)


def of_ended(job: EndedJob) -> Event:
    """That a job failed, or that its point of the benchmark gives results again."""
    name = f"{job.benchmark} {job.label}".strip()
    subject = content_hash([job.benchmark, job.label])[:16]
    if job.done:
        return Event(
            "recovered",
            job.at,
            subject,
            f"done:{job.job}",
            of="failed",
            name=name,
            benchmark=job.benchmark,
            reason=f"{name} was measured again",
            job=job.job,
            campaign=job.campaign,
        )
    return Event(
        "failed",
        job.at,
        subject,
        f"failed:{job.job}",
        name=name,
        benchmark=job.benchmark,
        reason=job.reason,
        job=job.job,
        campaign=job.campaign,
    )


def of_finding(known: KnownFinding, at: float) -> Event:
    """What a finding tells: that a series changed, that it did not after all, or that this was expected."""
    series, job = known.series, known.first_bad.job or ""
    label = job_label(series.point, {}) if series.point else ""
    name = f"{series.benchmark} {label}".strip() + f": {series.metric}"
    moved = _moved(known)
    over = moved.state != "open"
    return Event(
        "recovered" if over else "finding",
        at,
        known.id,
        f"{moved.state}:{known.id}",
        of="finding" if over else None,
        name=name,
        benchmark=series.benchmark,
        metric=series.metric,
        unit=series.unit,
        finding=moved,
        series=series.id,
        job=job,
        campaign=job.rpartition("-job-")[0],
        reason={"gone": "the change is gone", "expected": "the change was called expected"}.get(moved.state, ""),
    )


def of_findings(findings: Iterable[KnownFinding], at: float) -> tuple[Event, ...]:
    return tuple(of_finding(finding, at) for finding in findings)


def of_silence(benchmark: str, last: float, after_s: float, now: float) -> Event:
    """That a benchmark has had no result for too long."""
    since = last + after_s
    return Event(
        "silent",
        since,
        benchmark,
        f"silent:{benchmark}:{last:.3f}",
        name=benchmark,
        benchmark=benchmark,
        reason=for_so_long(now - last, last),
    )


def of_noise(benchmark: str, now: float) -> Event:
    """That a benchmark gives results again."""
    return Event(
        "recovered",
        now,
        benchmark,
        f"heard:{benchmark}:{now:.3f}",
        of="silent",
        name=benchmark,
        benchmark=benchmark,
        reason="it is no longer silent",
    )


def of_lost(agent: LostAgent, after_s: float, now: float) -> Event:
    """That an agent has been silent for too long."""
    reason = for_so_long(now - agent.last_seen, agent.last_seen)
    return Event(
        "agent-lost",
        agent.last_seen + after_s,
        agent.id,
        f"lost:{agent.id}:{agent.last_seen:.3f}",
        name=agent.name,
        agent=agent.id,
        reason=reason,
    )


def of_back(agent: str, now: float) -> Event:
    """That an agent sends heartbeats again, or was removed."""
    return Event(
        "recovered",
        now,
        agent,
        f"back:{agent}:{now:.3f}",
        of="agent-lost",
        agent=agent,
        reason="it sends heartbeats again, or was removed",
    )


def _why(result: MultiRunJobResult) -> str:
    failure = result.failure
    return "" if failure is None else failure_sentence(failure)


def _limits(
    result: MultiRunJobResult,
    rules: Sequence[Rule],
    label: str,
    job: EndedJob,
    labels: Mapping[str, str],
    samples: Samples | None,
) -> Iterator[Event]:
    metrics = dict.fromkeys(rule.alert.metric or "" for rule in rules if rule.alert.when in ("above", "below"))
    reported: set[str] = set()
    kind = machine_kind(result.environment)
    for name in metrics:
        wanted, statistic = split_statistic(name, result.metrics)
        for metric, stats in result.metrics.items():
            full = f"{metric}.{statistic}" if statistic else metric
            if full in reported or not (fnmatchcase(metric, wanted) or metric == wanted or base_name(metric) == wanted):
                continue
            reported.add(full)
            series = identity(job.benchmark, result.definition, result.point, kind, full, labels)
            value, interval, doubt = _value(result, metric, statistic, stats, samples)
            yield Event(
                "threshold",
                job.at,
                f"{series}:{full}",
                f"limit:{job.job}:{full}",
                name=f"{job.benchmark} {label}: {full}",
                benchmark=job.benchmark,
                metric=full,
                unit=stats.unit,
                value=value,
                interval=interval,
                doubt=doubt,
                series=series,
                job=job.job,
                campaign=job.campaign,
            )


def _value(
    result: MultiRunJobResult, metric: str, statistic: str, stats: MetricStatistics, samples: Samples | None
) -> tuple[float | None, Interval | None, str]:
    """A statistic, its interval from the spread between runs, and why it cannot be judged where it cannot."""
    chosen = statistic or ("mean" if is_quality(metric) else "median")
    value: float | None = getattr(stats, chosen)
    if value is None or not math.isfinite(value):
        return None, None, f"{metric}.{chosen} is not given: too few samples were taken"
    if result.verdict == "invalid":
        return value, None, "the result is invalid"
    if stats.runs < 2:
        return value, None, "it was measured in one run, so the spread between runs is unknown"
    interval = stats.interval if chosen in _MIDDLE else _between(result, metric, chosen, samples)
    if interval is None:
        return value, None, f"how much {metric}.{chosen} differs between runs is not known"
    return value, _around(value, interval), ""


def _between(result: MultiRunJobResult, metric: str, statistic: str, samples: Samples | None) -> Interval | None:
    if samples is None:
        return None
    per_run: list[float] = []
    for run in result.runs:
        if run.error is not None:
            continue
        values = measured_values(samples(run.run_id)).get(metric)
        finite = values[np.isfinite(values)] if values is not None else np.empty(0)
        if finite.size > 1:
            per_run.append(_OF_SAMPLES[statistic](finite))
    return between_runs(per_run)


def _around(value: float, interval: Interval) -> Interval:
    """An interval that holds the reported value: that of all runs together may lie beside the runs' own."""
    low, high = min(interval.low, value), max(interval.high, value)
    return Interval(low, high, interval.level, interval.method)


def _moved(known: KnownFinding) -> FindingSummary:
    finding, triage = known.finding, known.triage
    because = (*finding.because, *triage.because) if finding.unconfirmed else triage.because
    machine = known.first_bad.context.get("machine")
    return FindingSummary(
        id=known.id,
        state=known.state,
        answer=finding.answer,
        before=finding.before,
        after=finding.after,
        difference=finding.difference,
        difference_interval=_finite(finding.difference_interval),
        change=finding.change,
        change_interval=_finite(finding.interval) if finding.interval is not None else None,
        probability=finding.probability,
        since=known.first_bad.at,
        kind=finding.kind,
        cause=triage.cause,
        because=because,
        differs=triage.differs,
        machine=str(machine) if machine else "",
    )


def _finite(interval: Interval) -> Interval:
    """An interval that a document can hold: JSON has no word for infinity."""
    most = sys.float_info.max
    low, high = (min(max(end, -most), most) for end in (interval.low, interval.high))
    return Interval(low, high, interval.level, interval.method)

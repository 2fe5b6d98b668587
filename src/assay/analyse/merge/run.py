"""The parts of one point become one result: the same run of every part joined, its window counted again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.judge import judge
from assay.analyse.merge.overlap import (
    COUNTED,
    JoinedRequests,
    Overlap,
    PartRun,
    error_facts,
    join,
    overlap_of,
    request_facts,
    starts_of,
    totals,
)
from assay.analyse.records import MultiRunJobResult, section
from assay.analyse.telemetry import together
from assay.plan.job import Job
from assay.run.records import Failure, RunOutcome, SampleSet, SingleRunResult, Window

# Of the client that was worst off: where one of them is at its limit, the load together is in doubt.
_WORST = ("client_cpu_pct", "client_ceiling_pct", "loop_lag_ms")
_OF_ONE = "a number of each machine by itself; the parts have it"
# What every part asked for in the same way.
_SAME = ("endpoint", "workload", "goodput", "cost")


def merge_run(job: Job, run_id: int, parts: Sequence[PartRun]) -> RunOutcome:
    """Put the parts of one run together; a run whose parts cannot be is a failed one that says why."""
    parts = sorted(parts, key=lambda part: part.host)
    duration_s = job.definition.load.duration or 0.0
    runs = [part.result for part in parts]
    result = SingleRunResult(
        run_id=run_id,
        is_cold_start=run_id == 0,
        started_at=min((run.started_at for run in runs), default=""),
        completed_at=max((run.completed_at for run in runs), default=""),
        duration_seconds=max((run.duration_seconds for run in runs), default=0.0),
    )
    overlap = overlap_of(parts, job.definition.load.hosts, duration_s)
    if isinstance(overlap, Failure):
        return RunOutcome(replace(result, error=overlap))
    joined = join(parts, overlap)
    metrics, absent = _numbers(job, joined, parts)
    samples = joined_samples(parts, overlap)
    result = replace(
        result,
        metrics=metrics,
        absent=absent,
        sample_counts={sample_set.metric: len(sample_set.value) for sample_set in samples},
        facts=_facts(job, joined, parts, overlap, metrics),
        window=_window(parts, overlap),
    )
    return RunOutcome(result, samples)


def joined_samples(parts: Sequence[PartRun], overlap: Overlap) -> tuple[SampleSet, ...]:
    """The measured samples of all parts that began while all machines were loading, by time."""
    cuts_by_metric: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = {}
    for part in parts:
        begin, end = overlap.inside(part)
        for sample_set in part.samples:
            if sample_set.phase == "measure":
                inside = (sample_set.at_ns >= begin) & (sample_set.at_ns < end)
                cuts_by_metric.setdefault(sample_set.metric, []).append(
                    (sample_set.at_ns[inside] - begin, sample_set.value[inside])
                )
    joined = []
    for name, cuts in cuts_by_metric.items():
        at, values = (np.concatenate(column) for column in zip(*cuts, strict=True))
        if values.size:
            order = np.argsort(at, kind="stable")
            joined.append(SampleSet(name, "measure", at[order], values[order]))
    return tuple(joined)


def _numbers(job: Job, joined: JoinedRequests, parts: Sequence[PartRun]) -> tuple[dict[str, float], dict[str, str]]:
    """The numbers of the whole run, and why others are absent."""
    reported = dict.fromkeys(name for part in parts for name in part.result.metrics)
    lacking = {name: why for part in parts for name, why in part.result.absent.items()}
    counted, uncounted = totals(joined, job.definition)
    metrics = {name: value for name, value in counted.items() if name in reported}
    for name in _WORST:
        values = [part.result.metrics[name] for part in parts if name in part.result.metrics]
        if len(values) == len(parts):
            metrics[name] = max(values)
    sampled = {sample_set.metric for part in parts for sample_set in part.samples if sample_set.phase == "measure"}
    absent = {name: uncounted.get(name, lacking.get(name, _OF_ONE)) for name in (*reported, *lacking)}
    return metrics, {name: why for name, why in absent.items() if name not in metrics and name not in sampled}


def _facts(
    job: Job, joined: JoinedRequests, parts: Sequence[PartRun], overlap: Overlap, metrics: Mapping[str, float]
) -> dict[str, JsonValue]:
    first = parts[0].result.facts
    facts: dict[str, JsonValue] = {name: first[name] for name in _SAME if name in first}
    if isinstance(workload := facts.get("workload"), dict):
        facts["workload"] = {**workload, "repeated_requests": _repeated(parts)}
    if (tokens := _tokens(parts)) is not None:
        facts["tokens"] = tokens
    if (seen := together([part.result.facts.get("monitoring") for part in parts])) is not None:
        facts["monitoring"] = seen
    facts |= {
        "requests": request_facts(joined),
        "errors": error_facts(joined, parts),
        "load": _load(job, parts, overlap, metrics),
        "merged": {
            **overlap.facts(job.definition.load.duration or 0.0),
            "starts": starts_of(parts),
            "of": [_part(part, overlap) for part in parts],
            "means": "samples of all machines that began, and requests that were due, while all of them were loading",
            "counted_again": [name for name in COUNTED if name in metrics],
            "worst_machine": [name for name in _WORST if name in metrics],
        },
    }
    return facts


def _part(part: PartRun, overlap: Overlap) -> dict[str, JsonValue]:
    begin, end = overlap.inside(part)
    due = part.requests.due_ns if part.requests is not None else np.zeros(0, dtype=np.int64)
    own = part.window_ns or (0, 0)
    return {
        "host": part.host,
        "window_s": (own[1] - own[0]) / 1e9,
        "cut_before_s": begin / 1e9,
        "cut_after_s": (own[1] - own[0] - end) / 1e9,
        "due": int(np.count_nonzero((due >= begin) & (due < end))),
    }


def _load(job: Job, parts: Sequence[PartRun], overlap: Overlap, metrics: Mapping[str, float]) -> dict[str, JsonValue]:
    load = job.definition.load
    stops = [section(part.result.facts, "load").get("stopped", "finished") for part in parts]
    early = [f"host {part.host}: {why}" for part, why in zip(parts, stops, strict=True) if why != "finished"]
    facts: dict[str, JsonValue] = {
        "offered_per_s": metrics.get("offered_per_s"),
        "delivered_per_s": metrics.get("throughput_per_s"),
        "concurrency": metrics.get("concurrency"),
        "window_s": overlap.length_s,
        "clients": load.hosts * load.clients,
        "stopped": early[0] if early else "finished",
    }
    if isinstance(load.rate, float):
        facts["asked_per_s"] = load.rate
    elif load.rate is None and not load.trace and not load.stages:
        facts["asked_concurrency"] = load.concurrency or 1
    return facts


def _repeated(parts: Sequence[PartRun]) -> JsonValue:
    """Requests of all machines whose prompt their own run had asked before; None where one does not say."""
    counts = [section(part.result.facts, "workload").get("repeated_requests") for part in parts]
    return (
        sum(count for count in counts if isinstance(count, int))
        if all(isinstance(count, int) for count in counts)
        else None
    )


def _tokens(parts: Sequence[PartRun]) -> JsonValue:
    """Who counted tokens: as the part says in which something is wrong, else as the first one does."""
    all_tokens = [part.result.facts.get("tokens") for part in parts]
    wrong = ("tokenizer_disagrees", "tokenizer_disagrees_on_prompts", "bundled")
    sections = [facts for facts in all_tokens if isinstance(facts, dict)]
    doubtful = [facts for key in wrong for facts in sections if facts.get(key)]
    # Of the parts with bundled tokens, first one whose tokens nothing separated.
    doubtful.sort(key=lambda facts: section(facts, "chunks_split").get("evenly") == 0)
    return doubtful[0] if doubtful else all_tokens[0]


def _window(parts: Sequence[PartRun], overlap: Overlap) -> Window | None:
    """What the busiest machine did meanwhile: its shares of its own window, for as long as all were loading."""
    windows = [part.result.window for part in parts if part.result.window is not None]
    if len(windows) < len(parts):
        return None
    length_s = overlap.length_s

    def worst(read: Callable[[Window], float | None]) -> float | None:
        shares = [value / (window.wall_s * window.cores) for window in windows if (value := read(window)) is not None]
        return max(shares) * length_s if len(shares) == len(windows) else None

    throttled = [window.throttle_events for window in windows if window.throttle_events is not None]
    return Window(
        wall_s=length_s,
        cpu_s=max(window.cpu_s / (window.wall_s * window.cores) for window in windows) * length_s,
        others_cpu_s=worst(lambda window: window.others_cpu_s),
        steal_s=worst(lambda window: window.steal_s),
        cores=1,
        throttle_events=sum(throttled) if len(throttled) == len(windows) else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PartResult:
    """One machine's part of a load: its own result, and what its runs left."""

    host: int
    result: MultiRunJobResult
    runs: tuple[PartRun, ...]


def merge_point(job: Job, parts: Sequence[PartResult]) -> tuple[MultiRunJobResult, tuple[RunOutcome, ...]]:
    """Put the parts of a load together and judge them as one job: its result, and the joined runs."""
    planned = job.definition.measure.least_runs
    numbers = sorted({run.result.run_id for part in parts for run in part.runs}) or range(planned)
    runs = [run for part in parts for run in part.runs]
    same = {number: [run for run in runs if run.result.run_id == number] for number in numbers}
    outcomes = tuple(_why_missing(merge_run(job, number, same_runs), parts) for number, same_runs in same.items())
    judged = judge(job, outcomes, _environment(parts), planned_runs=planned)
    return replace(judged, job=f"{job.campaign or 'adhoc'}-merged-{job.index}"), outcomes


def _why_missing(outcome: RunOutcome, parts: Sequence[PartResult]) -> RunOutcome:
    error = outcome.result.error
    if error is None or error.code != "missing-part":
        return outcome
    undone = [(part.host, part.result) for part in parts if part.result.state != "done"]
    failures = [
        (host, job.error.message if job.error is not None else f"its job is {job.state}") for host, job in undone
    ]
    reasons = "; ".join(f"host {host}: {why}" for host, why in failures)
    message = f"{error.message} ({reasons})" if reasons else error.message
    return replace(outcome, result=replace(outcome.result, error=replace(error, message=message)))


def _environment(parts: Sequence[PartResult]) -> dict[str, JsonValue]:
    machines = [section(part.result.environment, "machine") for part in parts]
    names = [str(machine.get("name") or "unknown machine") for machine in machines]
    return {
        "machine": {"name": f"{len(names)} machines: {', '.join(names)}"},
        "machines": [dict(machine) for machine in machines],
    }

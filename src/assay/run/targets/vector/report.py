"""What a load of searches leaves, however it was driven, and its figures: one row per search, recall beside each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.metrics import METRICS
from assay.run.records import SamplePhase, SampleSet, Window
from assay.run.targets.vector.oracle import Neighbours, judge
from assay.run.workloads.corpus import VectorSet

OK = ""
# Cut off by us at the end of the load: neither an answer nor a failure.
_CUT = "unfinished"


@dataclass(frozen=True, slots=True, eq=False)
class Searches:
    """All searches of one load, in the order in which they were due; times are of `time.perf_counter_ns`."""

    query: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    outcome: NDArray[np.int16]
    """Position in `kinds`."""
    ids: NDArray[np.int64]
    """Searches × k; -1 where an answer is shorter."""
    kinds: tuple[str, ...]
    """How a search can end; the first is OK."""
    window: tuple[int, int]
    """Begin and end of the measured window."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Kind of failure → the words of one."""
    stopped: str = "finished"
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the way of driving adds, such as the client's own ceiling."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    machine: Window | None = None

    def measured(self) -> NDArray[np.bool_]:
        return (self.due_ns >= self.window[0]) & (self.due_ns < self.window[1])

    def warmup(self) -> NDArray[np.bool_]:
        return np.asarray(self.due_ns < self.window[0], dtype=np.bool_)


@dataclass(slots=True)
class Findings:
    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    samples: list[SampleSet] = field(default_factory=list)
    facts: dict[str, JsonValue] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


def report(
    searches: Searches, vectors: VectorSet, truth: Neighbours, objective: Mapping[str, float], findings: Findings
) -> None:
    """Turn searches into figures; recall stands beside every latency."""
    due = searches.measured()
    fine = due & (searches.outcome == 0)
    _keep_errors(searches, due, findings)
    if not fine.any():
        raise _nothing_worked(searches)
    judged = judge(vectors, truth, searches.query[fine], searches.ids[fine])
    latency_ms = (searches.end_ns - searches.due_ns)[fine] / 1e6
    at_ns = searches.due_ns[fine] - searches.window[0]
    findings.samples += [
        SampleSet("latency_ms", "measure", at_ns, latency_ms),
        SampleSet("recall", "measure", at_ns, judged.recall),
    ]
    delay_ms = (searches.sent_ns - searches.due_ns)[fine] / 1e6
    if delay_ms.any():  # in a closed loop a search is due when it is sent
        findings.samples += [
            SampleSet("schedule_delay_ms", "measure", at_ns, delay_ms),
            SampleSet("service_ms", "measure", at_ns, latency_ms - delay_ms),
        ]
    _keep_warmup(searches, findings)
    _keep_rates(searches, fine, findings)
    findings.metrics |= dict(searches.metrics)
    good = _good(objective, {"latency_ms": latency_ms, "recall": judged.recall})
    if good is not None:
        findings.metrics["goodput_per_s"] = good * findings.metrics["throughput_per_s"]
    findings.facts |= dict(searches.facts)
    findings.facts["truth"] = {
        "how": "all distances in single precision, candidates settled in double",
        "confirmed_by_a_second_method": truth.checked,
        "settled_in_double": truth.settled,
        "ties_count_as_right": True,
        "k": truth.k,
        "neighbours_of_a_query": truth.wanted,
    }
    findings.facts["answers"] = {
        "judged": int(fine.sum()),
        "different_queries": len(np.unique(searches.query[fine])),
        "ties": judged.ties,
        "outside_the_filter": judged.outside,
        "repeated": judged.repeated,
        "short": judged.short,
    }


def _keep_errors(searches: Searches, due: NDArray[np.bool_], findings: Findings) -> None:
    counts = np.bincount(searches.outcome[due], minlength=len(searches.kinds))
    failed = {kind: int(counts[code]) for code, kind in enumerate(searches.kinds) if code and counts[code]}
    cut = failed.pop(_CUT, 0)
    judged = int(due.sum()) - cut
    findings.metrics["error_rate"] = sum(failed.values()) / judged if judged else 0.0
    if failed:
        findings.facts["errors"] = {
            kind: {"count": count, "example": searches.examples.get(kind, "")} for kind, count in failed.items()
        }
    if searches.stopped != "finished":
        findings.facts["stopped"] = searches.stopped


def _keep_warmup(searches: Searches, findings: Findings) -> None:
    warm = searches.warmup() & (searches.outcome == 0)
    if warm.any():
        phase: SamplePhase = "warmup"
        at_ns = searches.due_ns[warm] - searches.due_ns[warm].min()
        latency_ms = (searches.end_ns - searches.due_ns)[warm] / 1e6
        findings.samples.append(SampleSet("latency_ms", phase, at_ns, latency_ms))


def _keep_rates(searches: Searches, fine: NDArray[np.bool_], findings: Findings) -> None:
    begin, end = searches.window
    span_s = max(1e-9, (end - begin) / 1e9)
    # By when they ended: whatever was in flight at one end of the window makes up for the other.
    ended = (searches.outcome == 0) & (searches.end_ns >= begin) & (searches.end_ns < end)
    busy_ns = np.minimum(searches.end_ns, end) - np.maximum(searches.sent_ns, begin)
    findings.metrics["throughput_per_s"] = int(ended.sum()) / span_s
    findings.metrics["offered_per_s"] = int(searches.measured().sum()) / span_s
    findings.metrics["concurrency"] = float(np.maximum(busy_ns, 0)[searches.sent_ns > 0].sum()) / (end - begin)
    findings.facts["measured_s"] = round(span_s, 4)
    findings.facts["counted"] = {"items": int(ended.sum()), "window_ns": [begin, end]}
    if not ended.any():  # a window shorter than one search: count what was due in it
        last = int(searches.end_ns[fine].max())
        findings.metrics["throughput_per_s"] = int(fine.sum()) / max(1e-9, (last - begin) / 1e9)
        findings.facts["counted"] = {"items": int(fine.sum()), "window_ns": [begin, last]}


def _good(objective: Mapping[str, float], values: Mapping[str, NDArray[np.float64]]) -> float | None:
    """Share of the searches that met every objective by themselves; None where the objective names none of these."""
    limits = {name.partition(".")[0]: limit for name, limit in objective.items()}
    asked = {name: limit for name, limit in limits.items() if name in values}
    if not asked:
        return None
    met = [
        values[name] >= limit if METRICS[name].better == "higher" else values[name] <= limit
        for name, limit in asked.items()
    ]
    return float(np.logical_and.reduce(met).mean())


def _nothing_worked(searches: Searches) -> MeasureError:
    kind, words = next(iter(searches.examples.items()), ("", ""))
    said = f"; {kind}: {words}" if words else ""
    if not len(searches.due_ns):
        return MeasureError("no search was sent", code="searches", try_="measure longer or ask for more")
    message = f"none of {len(searches.due_ns)} searches worked{said}"
    return MeasureError(message, code="searches", try_="look at the server's own log")

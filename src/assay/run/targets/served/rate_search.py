"""`rate: search`: one rate after another is tried until the highest that meets the objective is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from time import perf_counter_ns

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.apis import ServedApi
from assay.run.contract import Order, RateProbe, Rules, Stage
from assay.run.load.http.driver import HttpLoad, LoadWarmup, Supply
from assay.run.load.http.origin import Origin
from assay.run.load.http.recording import LoadRecording
from assay.run.load.http.session import deadline_ns, drive_watched, load_of
from assay.run.records import Phase
from assay.run.targets.served.counting import Counter
from assay.run.targets.served.figures import probe_figures, why_absent
from assay.run.targets.served.request_metrics import OK
from assay.run.targets.served.rows import Rows, read_rows
from assay.run.workloads import Item

# A new rate needs a while to show; that while is not judged.
_SETTLE = 0.15
_MOST_SETTLE_S = 5.0
# This many answers without one sample of a metric: further probes would have none either.
_ENOUGH_ANSWERS = 3
_OF_STREAMS = ("itl_ms", "chunk_gap_ms", "tpot_ms", "user_tokens_per_s", "ttft_ms")


@dataclass(frozen=True, slots=True, eq=False)
class RateSearchResult:
    capacity: float | None
    facts: Mapping[str, JsonValue]
    recording: LoadRecording
    """Of the longest probe at the capacity, or of the slowest rate where none met the objective."""


def search_rate(
    order: Order,
    origin: Origin,
    supply: Supply,
    api: ServedApi,
    items: Sequence[Item],
    stage: Stage,
    rules: Rules,
    *,
    began_ns: int,
    latency_s: float,
    most: int | None,
    counter: Callable[[], Counter],
) -> RateSearchResult:
    """Search for the highest rate that meets the objective."""
    definition = order.job.definition
    if not definition.objective:
        message = "load.rate is search, and there is no objective to meet"
        try_ = "say what must hold, such as objective: {ttft_ms.p99: 500}"
        raise MeasureError(message, code="objective", at="objective", try_=try_)
    searching = rules.search(definition)
    probes: list[tuple[float, float, LoadRecording]] = []
    left, sessions = most, 0
    judgeable = _Judgeable(definition.objective)
    until_ns = deadline_ns(definition.measure, began_ns)
    while (step := searching.next()) is not None:
        rate, duration_s = step
        if perf_counter_ns() + duration_s * 1e9 > until_ns or (left is not None and left <= 0):
            break
        load = _probe(order, origin, rate, duration_s, left, first=not probes)
        load = replace(load, first_session=sessions)  # prompts of an earlier probe would be answered from a cache
        shown = _ProbeStage(stage, len(probes) + 1, rate)
        recording = drive_watched(load, supply, order, shown, rules, began_ns=began_ns, latency_s=latency_s)
        rows = read_rows(recording, api, items, counter())
        seen = _probe_of(rate, recording, api, rows, order)
        judgeable.check(seen, recording, rows, api)
        searching.tell(seen)
        probes.append((rate, duration_s, recording))
        sessions = max(sessions, int(recording.session.max(initial=-1)) + 1)
        left = None if left is None else left - len(recording)
    if not probes:
        message = "there was no time for a single probe"
        try_ = "raise measure.timeout, or shorten load.search.probe"
        raise MeasureError(message, code="search", at="measure.timeout", try_=try_)
    facts = searching.facts()
    capacity = facts.get("capacity")
    capacity_per_s = float(capacity) if isinstance(capacity, int | float) else None
    return RateSearchResult(capacity_per_s, facts, _representative(probes, capacity_per_s))


@dataclass(frozen=True, slots=True)
class _ProbeStage:
    """Says at which rate the search is."""

    stage: Stage
    number: int
    rate: float

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        return self.stage.phase(name)

    def progress(self, share: float, note: str = "") -> None:
        self.stage.progress(share, f"probe {self.number} at {self.rate:.4g}/s: {note}")


def _probe(order: Order, origin: Origin, rate: float, duration_s: float, left: int | None, *, first: bool) -> HttpLoad:
    load = load_of(order, origin, rate=rate)
    settle = load.warmup if first else LoadWarmup(seconds=min(_MOST_SETTLE_S, _SETTLE * duration_s))
    return replace(load, warmup=settle, duration_s=duration_s, requests=None, most_requests=left)


class _Judgeable:
    """Whether every metric of the objective has samples at all; where one has none, no rate can be shown to be good."""

    def __init__(self, objective: Mapping[str, float]) -> None:
        self._limits = {name: name.rpartition(".")[0] for name in objective}
        self._unseen = set(self._limits.values())
        self._probes = self._answers = 0

    def check(self, seen: RateProbe, recording: LoadRecording, rows: Rows, api: ServedApi) -> None:
        """Look at one more probe."""
        self._probes += 1
        self._answers += int(np.count_nonzero(rows.outcome[recording.measured()] == OK))
        self._unseen -= {name for name, values in seen.values.items() if np.isfinite(values).any()}
        if not self._unseen or self._answers < _ENOUGH_ANSWERS:
            return
        metric = min(self._unseen)
        limits = " and ".join(name for name, limited in self._limits.items() if limited == metric)
        after = "the first probe" if self._probes == 1 else f"{self._probes} probes"
        raise MeasureError(
            f"{metric} has no samples after {after} with {self._answers} answers, so {limits} cannot be judged "
            f"at any rate: {why_absent(metric, recording, rows, api)}",
            code="objective",
            at="objective",
            try_=f"remove {limits} from the objective, or measure a server that gives {metric}"
            + (": one that streams its tokens one by one" if metric in _OF_STREAMS else ""),
        )


def _probe_of(rate: float, recording: LoadRecording, api: ServedApi, rows: Rows, order: Order) -> RateProbe:
    probe = probe_figures(recording, rows, api, order.job.definition)
    wall_s = max(1e-9, (recording.window[1] - recording.window[0]) / 1e9)
    return RateProbe(
        rate=rate,
        duration_s=wall_s,
        offered_per_s=probe.metrics.get("offered_per_s", 0.0),
        delivered_per_s=probe.metrics.get("throughput_per_s", 0.0),
        values=probe.samples,
        failed_share=probe.metrics.get("error_rate", 1.0),
        saturated=recording.stopped.startswith("saturated"),
    )


def _representative(probes: Sequence[tuple[float, float, LoadRecording]], capacity: float | None) -> LoadRecording:
    """The recording that describes the answer best."""
    if capacity is None:
        return min(probes, key=lambda probe: probe[0])[2]
    return max((probe for probe in probes if probe[0] == capacity), key=lambda probe: probe[1])[2]

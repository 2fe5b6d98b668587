"""The loop for targets that are called in this process: phases, warm-up, stop rule, memory and samples.

Several concurrent calls are MLPerf's multi-stream and offline scenarios.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import window
from assay.run.contract import InProcessModel, Lasting, Measured, Order, Rules, Stage
from assay.run.load.timing import Call, Stopwatch, harness_cost_ns, quiet_collector, time_calls
from assay.run.processes import peak_mb, reset_peak, resident_mb
from assay.run.records import DeviceProof, SamplePhase, SampleSet, Window
from assay.spec.benchmark import Load, Measure, Until

# Runs a number of calls and leaves their times in the stopwatch; returns the wall time it took.
Block = Callable[[Stopwatch, int], int]
# Long enough to hide the cost of a block's end, short enough to keep deadlines.
BLOCK_NS = 50_000_000
MAX_BLOCK = 100_000
# How long times are watched that changed not long ago or may still move, as a share of the longest measurement.
LONGEST_WATCH: Mapping[Lasting, float] = {"recent": 0.2, "unclear": 0.4}
DEFAULT_STREAMS = {"multi-stream": 8, "offline": 1, "single-stream": 1}


@contextmanager
def single_stream(call: Call) -> Iterator[Block]:
    def block(watch: Stopwatch, calls: int) -> int:
        begin = watch.count
        starts, ends = watch.reserve(calls)
        time_calls(call, starts, ends, begin, begin + calls)
        watch.advance(calls)
        return watch.span_ns(begin)

    yield block


@contextmanager
def multi_stream(call: Call, streams: int) -> Iterator[Block]:
    """A query of several concurrent calls; its time ends with the slowest, and then the next query starts."""
    with _query(call, streams) as query, single_stream(query) as block:
        yield block


@contextmanager
def offline(call: Call, streams: int) -> Iterator[Block]:
    """As many calls as possible: every stream calls without waiting for the others."""
    if streams == 1:
        with single_stream(call) as block:
            yield block
        return
    with ThreadPoolExecutor(streams, thread_name_prefix="stream") as pool:

        def block(watch: Stopwatch, calls: int) -> int:
            begin = watch.count
            share = max(1, calls // streams)
            starts, ends = watch.reserve(share * streams)
            firsts = [begin + share * stream for stream in range(streams)]
            work = [pool.submit(time_calls, call, starts, ends, first, first + share) for first in firsts]
            for part in work:
                part.result()
            watch.advance(share * streams)
            return watch.span_ns(begin)

        yield block


class _Worker:
    """A thread that makes one call each time its gate opens."""

    def __init__(self, call: Call) -> None:
        self.failure: BaseException | None = None
        self._call = call
        self._gate = threading.Lock()
        self._done = threading.Lock()
        self._stopping = False
        self._gate.acquire()
        self._done.acquire()
        self.open_gate = self._gate.release
        self.wait = self._done.acquire
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._gate.release()
        self._thread.join()

    def _serve(self) -> None:
        while self._gate.acquire() and not self._stopping:
            try:
                self._call()
            except BaseException as failure:  # handed to the thread that asked
                self.failure = failure
            self._done.release()


@contextmanager
def _query(call: Call, streams: int) -> Iterator[Call]:
    """One callable that makes `streams` concurrent calls, on threads that wait between queries."""
    workers = [_Worker(call) for _ in range(streams)]

    def query() -> None:
        for worker in workers:
            worker.open_gate()
        for worker in workers:
            worker.wait()
        for worker in workers:
            if worker.failure is not None:
                raise worker.failure

    try:
        yield query
    finally:
        for worker in workers:
            worker.stop()


@dataclass(slots=True)
class _Findings:
    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    samples: list[SampleSet] = field(default_factory=list)
    facts: dict[str, JsonValue] = field(default_factory=dict)


def drive(model: InProcessModel, order: Order, stage: Stage, rules: Rules) -> Measured:
    definition = order.job.definition
    findings = _Findings()
    try:
        _load(model, stage, findings)
        call = model.call()
        first_ns = _first(call, stage, findings)
        with _scenario(definition.load, call) as block, quiet_collector():
            before = _warm_up(block, first_ns, order, stage, rules, findings)
            seen, calls, busy_ns = _measure(block, first_ns, order, stage, rules, findings, before)
        _throughput(definition.load, model.items_per_call, calls, busy_ns, findings)
        _keep_peak(findings, "peak_run_rss_mb", apart=bool(findings.facts["memory_peaks_apart"]))
        with stage.phase("score"):
            proof = _proved(model.proof())
            findings.facts |= dict(model.facts())
    finally:
        with stage.phase("cleanup"):
            model.close()
    return Measured(findings.metrics, findings.absent, tuple(findings.samples), findings.facts, proof, seen)


def _load(model: InProcessModel, stage: Stage, findings: _Findings) -> None:
    findings.metrics["baseline_rss_mb"] = resident_mb()
    apart = reset_peak()
    with stage.phase("load"):
        start = perf_counter_ns()
        model.load()
        findings.metrics["load_ms"] = (perf_counter_ns() - start) / 1e6
    _keep_peak(findings, "peak_load_rss_mb", apart=apart)
    findings.facts["memory_peaks_apart"] = apart


def _first(call: Call, stage: Stage, findings: _Findings) -> int:
    reset_peak()
    with stage.phase("first"):
        start = perf_counter_ns()
        call()
        taken = perf_counter_ns() - start
    findings.metrics["first_ms"] = taken / 1e6
    return taken


def _scenario(load: Load, call: Call) -> AbstractContextManager[Block]:
    if load.scenario == "multi-stream":
        return multi_stream(call, _streams(load))
    if load.scenario == "offline":
        return offline(call, _streams(load))
    return single_stream(call)


def _streams(load: Load) -> int:
    return load.streams or DEFAULT_STREAMS[load.scenario or "single-stream"]


def longest_warmup_s(measure: Measure) -> float:
    """How long a warm-up may be looked for: as long as the measurement, and never most of the run's time."""
    return min(max(1.0, measure.until.at_most), measure.timeout / 4)


@dataclass(slots=True)
class _Before:
    """What was called before the measured window began."""

    begin_ns: int
    again_until_ns: float
    """The window may begin again until then: what was measured was still warm-up."""
    watches: list[Stopwatch] = field(default_factory=list)

    @property
    def durations_ns(self) -> NDArray[np.int64]:
        return np.concatenate([watch.durations_ns for watch in self.watches]) if self.watches else _NO_CALLS

    @property
    def calls(self) -> int:
        return sum(watch.count for watch in self.watches)


_NO_CALLS = np.empty(0, dtype=np.int64)


def _warm_up(block: Block, first_ns: int, order: Order, stage: Stage, rules: Rules, findings: _Findings) -> _Before:
    """Call until the times are level, or as often as the file says."""
    measure = order.job.definition.measure
    asked = measure.warmup
    if asked == "none":
        findings.facts["warmup"] = {"how": "none", "calls": 0}
        return _Before(perf_counter_ns(), 0)
    # A number of calls is made, however long they take; a detected warm-up may take as long as the measurement.
    cap_s = asked if isinstance(asked, float) else math.inf if isinstance(asked, int) else longest_warmup_s(measure)
    cap_ns = cap_s * 1e9
    watch = Stopwatch()
    steady, next_look = False, 30
    with stage.phase("warmup"):
        begin = perf_counter_ns()
        while (elapsed := perf_counter_ns() - begin) < cap_ns and not steady:
            size = _block_size(watch, first_ns, left_ns=cap_ns - elapsed, share=0.2)
            size = min(size, asked - watch.count) if isinstance(asked, int) else size
            if size < 1:
                break
            block(watch, size)
            # Asked at growing counts only: a question that is put often enough gets the answer it wants.
            if asked == "auto" and watch.count >= next_look:
                next_look = int(watch.count * 1.4) + 1
                steady = rules.steady(watch.durations_ns)
    findings.facts["warmup"] = {
        "how": "detected" if asked == "auto" else "given",
        "calls": watch.count,
        "seconds": round((perf_counter_ns() - begin) / 1e9, 4),
        "steady": steady if asked == "auto" else None,
    }
    return _Before(begin, begin + cap_ns if asked == "auto" else 0, [watch])


def _measure(
    block: Block, first_ns: int, order: Order, stage: Stage, rules: Rules, findings: _Findings, before: _Before
) -> tuple[Window, int, int]:
    """Measure, and begin again where the times still moved meanwhile: then they belong to the warm-up.

    Returns:
        The window, the calls in it, and the wall time of the blocks alone, without our pauses between them.
    """
    harness_ns = _harness_ns(order.job.definition.load)
    again = 0
    while True:
        taken = _take_samples(block, first_ns, order, stage, rules, before, harness_ns)
        if not taken.moved:
            break
        again += 1
        before.watches.append(taken.watch)
        with stage.phase("warmup"):
            seconds = round((perf_counter_ns() - before.begin_ns) / 1e9, 4)
    if again:
        known = _mapping(findings.facts["warmup"])
        findings.facts["warmup"] = {**known, "calls": before.calls, "seconds": seconds, "begun_again": again}
    if before.watches:
        _keep_samples(before.watches, "warmup", findings)
    _keep_samples([taken.watch], "measure", findings)
    seen, calls = taken.seen, taken.watch.count
    findings.metrics |= {"cpu_pct": 100 * seen.cpu_s / seen.wall_s, "cpu_ms": 1e3 * seen.cpu_s / calls}
    return seen, calls, taken.busy_ns


def _mapping(fact: JsonValue) -> dict[str, JsonValue]:
    return fact if isinstance(fact, dict) else {}


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    watch: Stopwatch
    seen: Window
    busy_ns: int
    moved: bool
    """Whether the times moved, so that another window should be measured."""


def _take_samples(
    block: Block, first_ns: int, order: Order, stage: Stage, rules: Rules, before: _Before, harness_ns: float
) -> _Taken:
    """Measure one window: take samples until the stop rule is content."""
    until = order.job.definition.measure.until
    watch = Stopwatch(until.samples or 65_536)
    busy_ns = 0
    rule = _StopRule(until, rules, stage, before)
    with stage.phase("measure"):
        begin = window.read()
        pause = window.Pause()
        while True:
            elapsed_ns = perf_counter_ns() - begin.wall_ns
            with pause:
                done = rule.finished(watch, elapsed_ns)
            if done:
                break
            left_ns = int(until.at_most * 1e9) - elapsed_ns
            size = _block_size(watch, first_ns, left_ns=left_ns)
            if until.samples is not None:
                size = min(_block_size(watch, first_ns, left_ns=BLOCK_NS), until.samples - watch.count)
            busy_ns += block(watch, size)
        end = window.read()
    return _Taken(watch, window.between(begin, end, harness_ns=harness_ns, pause=pause), busy_ns, rule.moved)


@dataclass(slots=True)
class _StopRule:
    """Whether enough was measured; statistics are asked at growing counts only, for they cost time."""

    until: Until
    rules: Rules
    stage: Stage
    before: _Before
    moved: bool = False
    """Whether it ended because the times still moved."""
    _next_look: int = 64

    def finished(self, watch: Stopwatch, elapsed_ns: int) -> bool:
        until = self.until
        if until.samples is not None:
            self.stage.progress(watch.count / until.samples, _recent_latency(watch))
            if watch.count < until.samples:
                return False
            self._ask(watch)
            return True
        self.stage.progress(elapsed_ns / (until.at_most * 1e9), _recent_latency(watch))
        if elapsed_ns >= until.at_most * 1e9 and watch.count:
            self._ask(watch)
            return True
        if elapsed_ns < until.at_least * 1e9 or watch.count < self._next_look:
            return False
        self._next_look = int(watch.count * 1.4) + 1
        lasting = self._ask(watch)
        if self.moved:
            return True
        if elapsed_ns < LONGEST_WATCH.get(lasting, 0.0) * until.at_most * 1e9:
            return False
        return self.rules.enough(watch.durations_ns, until.interval)

    def _ask(self, watch: Stopwatch) -> Lasting:
        """Whether the level of the window lasts; it need not where it is too late to begin again."""
        if perf_counter_ns() >= self.before.again_until_ns:
            return "level"
        lasting = self.rules.lasting(self.before.durations_ns, watch.durations_ns)
        self.moved = lasting == "moved"
        return lasting


def _recent_latency(watch: Stopwatch) -> str:
    recent = watch.durations_ns[-100:]
    return f"latency {float(np.median(recent)) / 1e6:.3g} ms" if len(recent) else ""


def _block_size(watch: Stopwatch, first_ns: int, *, left_ns: float, share: float = 1.0) -> int:
    """Calls that fill one block, or what is left of the time."""
    recent = watch.durations_ns[-1000:]
    typical_ns = max(1.0, float(np.median(recent)) if len(recent) else first_ns)
    wanted_ns = max(1, min(BLOCK_NS * share, left_ns))
    return int(min(MAX_BLOCK, max(1, wanted_ns / typical_ns)))


def _harness_ns(load: Load) -> float:
    def nothing() -> None:
        return None

    if load.scenario == "multi-stream":
        with multi_stream(nothing, _streams(load)) as block:
            watch = Stopwatch()
            block(watch, 500)
            return float(np.median(watch.durations_ns))
    return harness_cost_ns(nothing)


def _keep_samples(watches: Sequence[Stopwatch], phase: SamplePhase, findings: _Findings) -> None:
    starts = np.concatenate([watch.starts_ns for watch in watches])
    if starts.size:
        durations = np.concatenate([watch.durations_ns for watch in watches])
        findings.samples.append(SampleSet("latency_ms", phase, starts - starts.min(), durations / 1e6))


def _throughput(load: Load, items_per_call: int, calls: int, busy_ns: int, findings: _Findings) -> None:
    calls_per_sample = _streams(load) if load.scenario == "multi-stream" else 1
    items = calls * items_per_call * calls_per_sample
    findings.metrics["throughput_per_s"] = items / (busy_ns / 1e9)
    findings.facts["counted"] = {"items": items}
    findings.facts["load"] = {
        "scenario": load.scenario or "single-stream",
        "streams": _streams(load),
        "items_per_call": items_per_call,
    }


def _keep_peak(findings: _Findings, name: str, *, apart: bool) -> None:
    peak = peak_mb()
    if peak is None:
        findings.absent[name] = "this system keeps no high-water mark of memory"
    elif not apart and name == "peak_run_rss_mb" and peak <= findings.metrics.get("peak_load_rss_mb", 0.0):
        findings.absent[name] = "not above the peak of the load, and this system cannot tell the two apart"
    else:
        findings.metrics[name] = peak


def _proved(proof: DeviceProof) -> DeviceProof:
    """The proof, if the device that was asked for did the work."""
    if not proof.honoured:
        nodes = ", ".join(f"{provider} ran {count} nodes" for provider, count in proof.nodes.items())
        message = f"{proof.requested} was asked for, but {proof.used} did the work ({nodes}; {proof.evidence})"
        try_ = "ask for the device that really runs this model, or install a runtime that supports it there"
        raise MeasureError(message, code="device", try_=try_)
    return proof

"""From the sections of a file to a load that the HTTP loop can drive, with phases that people can watch.

Machines that share a load meet after their first request, right before the load. The warm-up belongs to the load: it is
driven by all machines at once, as long on each, so that their measured windows begin together too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns

from pydantic import JsonValue

from assay.run.contract import Order, Rules, Stage
from assay.run.load.barrier import BarrierOutcome, meet
from assay.run.load.http.clients import ceiling, drive_clients, with_ceiling
from assay.run.load.http.driver import HttpLoad, LoadCallbacks, LoadWarmup, Supply
from assay.run.load.http.origin import Origin
from assay.run.load.http.recording import LoadRecording
from assay.run.load.shape import ClosedShape, Shape, shape_of
from assay.run.load.timing import read_clocks
from assay.run.records import Phase
from assay.run.workloads.trace import Trace
from assay.spec.benchmark import Measure
from assay.spec.workload import Load

# Even a run that has no time to lose gives the others a moment.
_LEAST_S = 5.0
# Kept free at the end of a run's time for reading answers and writing results.
_FOR_READING = 0.15
_LEAST_READING_S, _MOST_READING_S = 2.0, 60.0
# Several processes cannot agree on when the times are level; they warm up for a fixed while.
_SHARED_WARMUP_S = 3.0


@dataclass(slots=True)
class Rendezvous:
    """The meeting of one run; where there is none, it costs nothing."""

    order: Order
    met: BarrierOutcome | None = None

    def start_ns(self, load: HttpLoad, stage: Stage, deadline_ns: int) -> int | None:
        """Wait for the others; when to begin on the clock of the load loop, None for at once.

        Raises:
            MeasureError: if not all came in time.
        """
        meeting = self.order.meeting
        if meeting is None:
            return None
        stage.progress(0.0, f"waiting for the other {meeting.of - 1} clients")
        needed_s = load.warmup.seconds + (load.duration_s or load.at_most_s) + meeting.lead_s
        within_s = max(_LEAST_S, (deadline_ns - perf_counter_ns()) / 1e9 - needed_s)
        self.met = meet(meeting.of_run(self.order.run_id), meeting.who, meeting.of, within_s, lead_s=meeting.lead_s)
        now = read_clocks()
        return now.loop_ns + self.met.start_at_ns - now.epoch_ns

    def facts(self, clock: JsonValue) -> dict[str, JsonValue]:
        """How the meeting went, and how long after the common moment this machine's load began."""
        if self.met is None:
            return {}
        begun = clock.get("load_begin_epoch_ns") if isinstance(clock, dict) else None
        after_s = (begun - self.met.start_at_ns) / 1e9 if isinstance(begun, int) else None
        return {"barrier": {**self.met.facts(), "began_after_s": after_s}}


class Phases:
    """Phases that change from inside a load: it says when it begins to measure."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._open = ExitStack()
        self._name: Phase | None = None

    def enter(self, name: Phase) -> None:
        """End the phase before and begin this one; the same again changes nothing."""
        if name != self._name:
            self._open.close()
            self._open = ExitStack()
            self._open.enter_context(self._stage.phase(name))
            self._name = name

    def close(self) -> None:
        """End the last phase."""
        self._open.close()
        self._name = None


def load_of(order: Order, origin: Origin, *, trace: Trace | None = None, rate: float | None = None) -> HttpLoad:
    """The load that a definition asks for."""
    definition = order.job.definition
    load, measure, target = definition.load, definition.measure, definition.target
    shape = shape_of(load, rate=rate, trace_s=None if trace is None else trace.at_s.tolist())
    return HttpLoad(
        origin=origin,
        shape=shape,
        spool=Path(order.scratch),
        seed=definition.workload.seed + order.run_id,
        warmup=_warmup(load, measure, shape, replays=trace is not None),
        duration_s=load.duration,
        requests=load.requests,
        at_least_s=measure.until.at_least,
        at_most_s=measure.until.at_most,
        interval=measure.until.interval,
        timeout_s=getattr(target, "timeout", 120.0),
        max_in_flight=load.max_in_flight,
        errors=load.errors,
        clients=load.clients,
        host=load.host or 0,
        hosts=load.hosts,
    )


def _warmup(load: Load, measure: Measure, shape: Shape, *, replays: bool) -> LoadWarmup:
    """Warm-up at the load that is measured; stages and traces begin where they begin."""
    asked = measure.warmup
    ramp_s = load.ramp or 0.0
    if isinstance(asked, float):
        return LoadWarmup(seconds=asked + ramp_s)
    if isinstance(asked, int):
        return LoadWarmup(requests=max(asked, shape.most if isinstance(shape, ClosedShape) else 1))
    if asked == "none" or replays or load.stages:
        return LoadWarmup(seconds=ramp_s)
    longest_s = max(1.0, load.duration or measure.until.at_most)
    if load.clients > 1 or load.hosts > 1:
        return LoadWarmup(seconds=ramp_s + min(_SHARED_WARMUP_S, longest_s))
    return LoadWarmup(detect=not ramp_s, seconds=ramp_s + longest_s)


def reading_s(measure: Measure) -> float:
    """Time at the end of a run that is kept for what comes after the load."""
    return min(_MOST_READING_S, max(_LEAST_READING_S, _FOR_READING * measure.timeout))


def drive_watched(
    load: HttpLoad,
    supply: Supply,
    order: Order,
    stage: Stage,
    rules: Rules,
    began_ns: int,
    latency_s: float = 0.0,
    rendezvous: Rendezvous | None = None,
) -> LoadRecording:
    """Drive a load, tell how far it is, and put the client's share of its ceiling beside it.

    Args:
        latency_s: about how long one answer takes when nothing else is asked.
    """
    measure = order.job.definition.measure
    known = ceiling(Path(order.cache or order.scratch), Path(order.scratch))
    deadline_ns = began_ns + int((measure.timeout - reading_s(measure)) * 1e9)
    if rendezvous is not None:
        load = replace(load, start_ns=rendezvous.start_ns(load, stage, deadline_ns))
    phases = Phases(stage)
    warm = load.warmup
    phases.enter("warmup" if warm.detect or warm.seconds or warm.requests else "measure")

    def measuring() -> None:
        phases.enter("measure")

    def falls_behind(story: Sequence[tuple[float, int, int, int]]) -> bool:
        return rules.falls_behind(story, latency_s)

    stops = order.job.definition.load.saturation == "stop"
    asks = LoadCallbacks(
        steady=rules.steady,
        enough=rules.enough,
        falls_behind=falls_behind if stops and not isinstance(load.shape, ClosedShape) else None,
        progress=stage.progress,
        measuring=measuring,
    )
    try:
        recording = drive_clients(replace(load, deadline_ns=max(deadline_ns, perf_counter_ns())), supply, asks)
    finally:
        phases.close()
    return with_ceiling(recording, known)


def asked_of(load: Load) -> dict[str, float | int | str]:
    """What was asked of a load without a trace, in one line of facts."""
    shape = shape_of(load)
    if isinstance(shape, ClosedShape):
        asked: dict[str, float | int | str] = {"shape": "closed", "concurrency": shape.most}
        return asked | ({"think_s": shape.think_s} if shape.think_s else {})
    levels = [level for level in shape.levels if math.isfinite(level.duration_s)] or list(shape.levels)
    return {"shape": "open", "arrivals": shape.process, "rate": max(max(one.begin, one.end) for one in levels)}

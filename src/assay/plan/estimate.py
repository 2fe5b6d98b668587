"""How long a job will take, said before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from assay.spec.benchmark import Definition, Measure
from assay.spec.target import CommandTarget, DeviceTarget, Served
from assay.spec.workload import Load

# A fresh Python process with its libraries, on an ordinary machine; the model's own load comes on top.
START_S = 1.0
# Warm-up is detected; this is the cap that the load loop keeps.
WARMUP_CAP_SHARE = 1.0
# Tests of a device and sizes of each, where the file names none, and what making and checking the data adds.
USUAL_TESTS = 10
USUAL_SIZES = 6
AROUND_A_SIZE = 1.5
# A search takes at most so many times `probes × probe`, and each probe this share of its length to settle.
SEARCH_IN_ALL = 3.0
SEARCH_SETTLE = 0.15


@dataclass(frozen=True, slots=True)
class Estimate:
    """A span of time and where it comes from."""

    expected_s: float | None  # None where nothing says; with `least_s`, the longest that is expected
    at_most_s: float  # the deadlines, if everything goes as slowly as it may
    source: str
    least_s: float | None = None  # the shortest that is expected, where that is a range; 0 where only its end is known


@dataclass(frozen=True, slots=True)
class _Span:
    """Seconds of a part of one run, between two ends."""

    least: float
    most: float


def estimate(definition: Definition, known_s: float | None, *, trace_s: float | None = None) -> Estimate:
    """Estimate one job.

    Args:
        known_s: how long the same digest took before on this machine, if it is known.
    """
    measure = definition.measure
    longest = measure.runs * measure.timeout
    if known_s is not None:
        return Estimate(known_s, longest, "an earlier result of the same job here")
    if isinstance(definition.target, CommandTarget):
        return Estimate(None, longest, "no earlier result; the command decides")
    if isinstance(definition.target, DeviceTarget):
        expected_s = measure.runs * _device_s(definition.target)
        return Estimate(expected_s, longest, "the time for each size, with the sizes that tests usually have")
    if isinstance(definition.target, Served) and _says_when_it_ends(definition.load):
        return _of_load(definition, longest, trace_s)
    return Estimate(measure.runs * _run_s(measure), longest, "the stop rule, if each run measures as long as it may")


def _says_when_it_ends(load: Load) -> bool:
    return bool(load.duration or load.requests or load.stages or load.trace or load.rate == "search")


def _of_load(definition: Definition, longest_s: float, trace_s: float | None) -> Estimate:
    load, measure = definition.load, definition.measure
    loaded = _loaded_s(load, trace_s)
    if loaded is None:
        asked = "its trace was not read" if load.trace else f"the server decides how long {load.requests} requests take"
        return Estimate(None, longest_s, f"no earlier result; {asked}")
    warm = _warmup_s(load, measure)
    least, most = (
        measure.runs * min(START_S + span, measure.timeout)
        for span in (loaded.least + warm.least, loaded.most + warm.most)
    )
    source = "the load that is asked for"
    if load.rate == "search":
        source = "the longest search that load.search allows; it may end much earlier"
    elif warm.least < warm.most:
        source += ", without and with the longest warm-up"
    if definition.services:
        source += "; the start of services comes on top"
    if not loaded.least:
        return Estimate(most, longest_s, source, 0.0)
    return Estimate(most, longest_s, source, least if least < most else None)


def _loaded_s(load: Load, trace_s: float | None) -> _Span | None:
    """How long one run loads its target after the warm-up; None where that depends on the target alone."""
    if load.rate == "search":
        # Every probe begins with a while that is not judged.
        return _Span(0.0, SEARCH_IN_ALL * load.search.probes * load.search.probe * (1 + SEARCH_SETTLE))
    ends = [load.duration] if load.duration is not None else []
    if load.trace is not None and trace_s is not None:
        ends.append(trace_s)
    if load.stages:
        ends.append(sum(one.duration for one in load.stages))
    if load.requests is not None and load.rate:
        ends.append(load.requests / load.rate)
    if not ends:
        return None
    may_end_sooner = load.requests is not None and not load.rate
    return _Span(0.0 if may_end_sooner else min(ends), min(ends))


def _warmup_s(load: Load, measure: Measure) -> _Span:
    """How long the target is loaded before that; requests of a closed loop take a while that nothing says."""
    ramp, asked = load.ramp or 0.0, measure.warmup
    if isinstance(asked, float):
        return _Span(asked + ramp, asked + ramp)
    if isinstance(asked, int):
        given = asked / load.rate if isinstance(load.rate, float) else ramp
        return _Span(given, given)
    if asked == "none" or load.trace or load.stages:
        return _Span(ramp, ramp)
    return _Span(ramp, ramp + max(1.0, load.duration or measure.until.at_most))


def _device_s(target: DeviceTarget) -> float:
    sizes = max(len(target.sizes), len(target.shapes)) or USUAL_SIZES
    once = (len(target.tests) or USUAL_TESTS) * sizes * target.each * AROUND_A_SIZE
    return START_S + once * (2 if target.compare else 1)


def _run_s(measure: Measure) -> float:
    warmup = measure.warmup if isinstance(measure.warmup, float) else WARMUP_CAP_SHARE * measure.until.at_most
    return START_S + warmup + max(measure.until.at_most, measure.until.at_least)

"""Checks of the runs beside each other: enough of them, close to each other, on one level, and independent."""

from __future__ import annotations

import numpy as np

from assay.analyse.checks.evidence import NOTHING_MEASURED, CheckEvidence, Finding
from assay.analyse.intervals import relative_half_width
from assay.analyse.levels import Levels, levels_of_runs, levels_of_samples
from assay.analyse.noise import drift_of, memory_chance
from assay.analyse.records import MetricStatistics
from assay.analyse.stopping import precision_of
from assay.analyse.text import count, number, percent, quantity
from assay.units import show_seconds

# Two runs can agree by luck; three is the smallest number whose spread means something.
MIN_RUNS = 3
# A trend or a memory that luck shows more often than this is none, and one below this change decides nothing.
_BY_LUCK = 0.02
_LEAST_DRIFT = 0.01


def enough_runs(evidence: CheckEvidence) -> Finding:
    """Whether there are enough runs for their spread to mean something."""
    good = len(evidence.good)
    if good < MIN_RUNS:
        return False, f"{count(good, 'run')} gave numbers; the spread between runs needs {MIN_RUNS} or more"
    return True, f"{count(good, 'run')} gave numbers"


def interval_narrow(evidence: CheckEvidence) -> Finding:
    """Whether runs agree closely enough for a number to speak for them, and as closely as the file asks."""
    target = evidence.job.definition.measure.interval
    names = _between_runs_judged(evidence)
    intervals = {name: evidence.metrics[name].interval for name in names}
    widths = {name: relative_half_width(interval) for name, interval in intervals.items() if interval is not None}
    if not names:
        return NOTHING_MEASURED
    if not widths:
        return None, "one run has no spread between runs"
    name = max(widths, key=lambda key: widths[key])
    width = f"±{percent(widths[name])}"
    if widths[name] <= target:
        return True, f"runs agree on {name} to {width}, within the ±{percent(target)} asked for"
    advice = "add runs or find what differs between them"
    return False, f"runs agree on {name} only to {width} (asked for: ±{percent(target)}), so {advice}"


def _between_runs_judged(evidence: CheckEvidence) -> tuple[str, ...]:
    """The metrics whose spread between runs is held against the file."""
    if evidence.job.definition.load.rate == "search" and "capacity_per_s" in evidence.speed:
        # Searches that end at different rates have different latencies; the rate is what they were asked for.
        return ("capacity_per_s",)
    if evidence.is_open_loop:
        # Rates of an open loop are those of its arrivals, which are drawn again in each run.
        return tuple(name for name in evidence.speed if not name.endswith("_per_s")) or evidence.speed
    return evidence.speed


def precise_as_asked(evidence: CheckEvidence) -> Finding:
    """Whether runs were added until the headline was known as closely as the file asks, and what that would take."""
    precision = precision_of(evidence.job.definition, evidence.metrics, evidence.runs)
    if precision is None:
        return NOTHING_MEASURED
    known = f"{precision.metric} is known to ±{percent(precision.width)} after {count(precision.runs, 'run')}"
    asked = f"asked for: ±{percent(precision.asked)}"
    if precision.reached:
        return True, f"{known} ({asked})"
    needed = f"about {precision.runs_needed:,} runs ({show_seconds(precision.runs_needed * precision.run_s)})"
    return False, f"{known} ({asked}); {needed} would do"


def one_level(evidence: CheckEvidence) -> Finding:
    """Whether the runs, and the samples inside them, lie on one level; two levels are named with their shares."""
    found = [sentence for name in evidence.speed if (sentence := _levels_between(name, evidence.metrics[name]))]
    found += _levels_inside(evidence)
    if found:
        return False, "; ".join(found[:2])
    return (True, "runs and samples lie on one level") if evidence.speed else NOTHING_MEASURED


def _levels_between(name: str, stats: MetricStatistics) -> str:
    levels = levels_of_runs(list(stats.run_values.values()))
    if levels is None:
        return ""
    above = round(levels.share * stats.runs)
    both = f"{quantity(levels.low, stats.unit)} in {stats.runs - above} of {count(stats.runs, 'run')}"
    other = f"{quantity(levels.high, stats.unit)} in {above} ({percent(levels.apart, signed=True)})"
    centres = f"the middle run is at {number(stats.median)}, the mean of all at {quantity(stats.mean, stats.unit)}"
    return f"{name} lies on two levels: {both}, {other}; {centres}"


def _levels_inside(evidence: CheckEvidence) -> list[str]:
    """A sentence for each metric of which most runs have samples on two levels."""
    by_metric: dict[str, list[Levels | None]] = {}
    for (_, name), values in evidence.measured().items():
        by_metric.setdefault(name, []).append(levels_of_samples(values))
    sentences = []
    for name, found in by_metric.items():
        there = [levels for levels in found if levels is not None]
        if evidence.load_varies or 2 * len(there) <= len(found):
            continue
        share, unit = float(np.median([levels.share for levels in there])), evidence.metrics[name].unit
        low, high = (
            quantity(float(np.median(ends)), unit) for ends in zip(*((x.low, x.high) for x in there), strict=True)
        )
        sentences.append(
            f"samples of {name} lie on two levels in {len(there)} of {count(len(found), 'run')}: about {low}, and "
            f"{high} in {percent(share)}"
        )
    return sentences


def runs_independent(evidence: CheckEvidence) -> Finding:
    """Whether the runs are independent of each other, as their interval takes them to be: no trend, and no memory."""
    if not evidence.speed:
        return NOTHING_MEASURED
    name = evidence.speed[0]  # each further one would be one more chance to see by luck what is not there
    sentence = dependence(name, evidence.metrics[name])
    return not sentence, sentence or "no trend and no memory from run to run"


def dependence(name: str, stats: MetricStatistics) -> str:
    """How the runs of a metric depend on each other, in words; empty where luck explains it."""
    values = np.array([stats.run_values[run] for run in sorted(stats.run_values)])
    if values.size < 2 or stats.median == 0:
        return ""
    trend = drift_of(values)
    change = trend.change / abs(stats.median)
    if trend.chance <= _BY_LUCK and abs(change) >= _LEAST_DRIFT:
        way = "rises" if change > 0 else "falls"
        return f"{name} {way} from run to run, {percent(change, signed=True)} from the first to the last"
    if (chance := memory_chance(values)) <= _BY_LUCK:
        return f"{name} of a run resembles the run before it (by luck in {percent(chance)} of cases)"
    return ""

"""How long a job will take, said before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from assay.spec.benchmark import Definition, Measure
from assay.spec.target import CommandTarget, DeviceTarget

# A fresh Python process with its libraries, on an ordinary machine; the model's own load comes on top.
START_S = 1.0
# Warm-up is detected; this is the cap that the load loop keeps.
WARMUP_CAP_SHARE = 1.0
# Tests of a device and sizes of each, where the file names none, and what making and checking the data adds.
USUAL_TESTS = 10
USUAL_SIZES = 6
AROUND_A_SIZE = 1.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A span of time and where it comes from."""

    expected_s: float | None  # from earlier results of the same job on this machine
    at_most_s: float  # the deadlines, if everything goes as slowly as it may
    source: str


def estimate(definition: Definition, known_s: float | None) -> Estimate:
    """Estimate one job.

    Args:
        definition: what the job measures.
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
    return Estimate(measure.runs * _run_s(measure), longest, "the stop rule, if each run measures as long as it may")


def _device_s(target: DeviceTarget) -> float:
    sizes = max(len(target.sizes), len(target.shapes)) or USUAL_SIZES
    once = (len(target.tests) or USUAL_TESTS) * sizes * target.each * AROUND_A_SIZE
    return START_S + once * (2 if target.compare else 1)


def _run_s(measure: Measure) -> float:
    warmup = measure.warmup if isinstance(measure.warmup, float) else WARMUP_CAP_SHARE * measure.until.at_most
    return START_S + warmup + max(measure.until.at_most, measure.until.at_least)

"""The hardware itself as a target: memory bandwidth, arithmetic by precision, transfers, storage.

What `hardware.bench` measured becomes metrics, samples, facts and proof.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, process_time
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.hardware.bench.records import BenchOptions, BenchOutcome, Measurements
from assay.run import window
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.records import DeviceProof, SampleSet
from assay.spec.target import DeviceTarget

if TYPE_CHECKING:
    from assay.hardware.bench.accelerator import Accelerator
    from assay.run.torch_devices import TorchPlacement

# Keys that say nothing to a device of PyTorch.
_OF_PROCESSORS = ("threads", "folder")


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The device, ready to be measured; None for the processor, which needs no library but numpy."""

    placement: TorchPlacement | None = None
    accelerator: Accelerator | None = None
    described: Mapping[str, JsonValue] = field(default_factory=dict)
    """Read before the tests: a device that is lost in the middle can no longer be read."""


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:  # noqa: ARG001  (each size has its own time)
    """Measure one run of a device's tests."""
    target = order.job.definition.target
    if not isinstance(target, DeviceTarget):
        raise UsageError("the device target needs a device", code="target", at="target.device")
    options = _bench_options(target, Path(order.job.base))
    with stage.phase("load"):
        device = _load(target)
    before = window.read(own_cpu_s=_own_cpu_s())
    begin_ns = perf_counter_ns()
    with stage.phase("measure"):
        measurements = _tests(options, stage, device)
    seen = window.between(before, window.read(own_cpu_s=_own_cpu_s()))
    with stage.phase("score"):
        return Measured(
            metrics=_metrics(measurements.tests),
            absent={test.metric: test.absent for test in measurements.tests if test.reported is None},
            samples=_samples(measurements.tests, begin_ns),
            facts=_facts(measurements, device),
            device=_proof(target.device, measurements, device),
            window=seen,
        )


def _bench_options(target: DeviceTarget, base: Path) -> BenchOptions:
    if target.device != "cpu":
        idle = [key for key in _OF_PROCESSORS if getattr(target, key) is not None]
        if idle:
            message = f"target.{idle[0]} does nothing for {target.device}"
            raise UsageError(message, code="usage", at=f"target.{idle[0]}", try_="remove it")
    folder = str(base / target.folder) if target.folder is not None else None
    return BenchOptions(
        tests=tuple(dict.fromkeys(target.tests)),
        sizes=tuple(sorted(set(target.sizes))),
        shapes=tuple(sorted(set(target.shapes))),
        each_s=target.each,
        threads=target.threads,
        folder=folder,
        compare=target.compare,
    )


def _load(target: DeviceTarget) -> _Loaded:
    """Find the device; the library that reaches it is imported here and not in the measured phase."""
    if target.device == "cpu":
        return _Loaded()
    from assay.hardware.bench.accelerator import Accelerator
    from assay.run.torch_devices import facts, library, place

    placement = place(target.device)
    try:
        return _Loaded(placement, Accelerator(library(), placement.name), facts(placement))
    except RuntimeError as problem:  # there, but not available: a broken driver, or in exclusive use
        said = next(iter(str(problem).strip().splitlines()), "no message")
        message = f"{target.device} cannot be used: {said}"
        raise MeasureError(message, code="device", at="target.device", try_="try `assay doctor`") from None


def _tests(options: BenchOptions, stage: Stage, device: _Loaded) -> Measurements:
    if device.accelerator is not None:
        from assay.hardware.bench.gpu_suite import measure as measure_accelerator

        return measure_accelerator(options, stage.progress, device.accelerator)
    from assay.hardware.bench.cpu_suite import measure as measure_processor

    return measure_processor(options, stage.progress)


def _own_cpu_s() -> float:
    """CPU time of this process and of the workers that have ended."""
    if sys.platform == "win32":
        return process_time()
    times = os.times()
    return process_time() + times.children_user + times.children_system


def _metrics(tests: tuple[BenchOutcome, ...]) -> dict[str, float]:
    """The value of each test; those with samples are summed up from these."""
    return {test.metric: test.reported.value for test in tests if test.reported is not None}


def _samples(tests: tuple[BenchOutcome, ...], begin_ns: int) -> tuple[SampleSet, ...]:
    """Every timed block at the size that speaks for its test."""
    import numpy as np

    columns: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {}
    for test in tests:
        if test.reported is not None:
            columns[test.metric] = (test.reported.values, test.reported.at_ns)
        columns |= test.also
    return tuple(
        SampleSet(metric, "measure", np.array(at_ns, dtype=np.int64) - begin_ns, np.array(values, dtype=np.float64))
        for metric, (values, at_ns) in columns.items()
    )


def _facts(measurements: Measurements, device: _Loaded) -> Mapping[str, JsonValue]:
    facts: dict[str, JsonValue] = {
        "device": dict(measurements.facts),
        "tests": {test.name: test.facts() for test in measurements.tests},
    }
    if measurements.bare:
        facts["bare"] = dict(measurements.bare)
    return {**facts, **device.described}


def _proof(asked: str, measurements: Measurements, device: _Loaded) -> DeviceProof | None:
    if not measurements.used:
        return None
    if device.placement is None:
        cores = measurements.used["cpu"]
        return DeviceProof(
            asked, "cpu", dict(measurements.used), f"arrays of numpy in processes on {cores} cores of this machine"
        )
    elsewhere = next((name for name in measurements.used if name != device.placement.name), None)
    evidence = f"devices of {sum(measurements.used.values())} result tensors, read after each size"
    return DeviceProof(asked, elsewhere or asked, dict(measurements.used), evidence)

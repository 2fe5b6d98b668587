"""The hardware itself as a target: memory bandwidth, arithmetic by precision, transfers, storage.

one_run.py     one run: the tests of `hardware.bench`, as metrics, samples and facts
throttling.py  which tests were measured while the device held its clocks down
"""

from __future__ import annotations

from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.targets.device.throttling import throttled_tests

__all__ = ["measure", "throttled_tests"]


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:  # noqa: ARG001  (each size has its own time)
    """Measure one run of a device's tests.

    Raises:
        MeasureError: when the device is not there.
    """
    from assay.run.targets.device.one_run import measure_device

    return measure_device(order, stage)

"""Figures of a run that several tests look at."""

from __future__ import annotations

import numpy as np

from assay.run.contract import Measured


def recall_of(measured: Measured) -> float:
    """Mean recall of a run."""
    (found,) = [one.value for one in measured.samples if one.metric == "recall" and one.phase == "measure"]
    assert len(found), "no recall was kept"
    return float(np.mean(found))


def count_of(measured: Measured, metric: str = "latency_ms") -> int:
    """Measured samples of a metric."""
    return sum(len(one.value) for one in measured.samples if one.metric == metric and one.phase == "measure")

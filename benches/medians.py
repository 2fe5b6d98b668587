"""Reported medians of several harnesses, taken in turn and held against those of a bare loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benches.figures import median_of, ratio_of
from benches.processes import there_and_back

WITHIN = 0.01
COLUMNS = ["model", "bare median, ms", "harness", "its median, ms", "ratio to bare, 95 %", f"within {WITHIN:.0%}"]

Play = Callable[[], dict[str, Any]]
Medians = dict[str, list[float]]


def play(plays: Mapping[str, Play], rounds: int) -> Medians:
    """Reported medians of contestants over rounds, in alternating order."""
    medians: Medians = {name: [] for name in plays}
    for name in there_and_back(list(plays), rounds):
        medians[name].append(float(plays[name]()["reported_ns"]))
    return medians


def row(model: str, medians: Medians, name: str) -> list[str]:
    """One line: a harness against the bare loop, judged where it is ours."""
    bare, theirs = (median_of(np.asarray(medians[key]) / 1e6) for key in ("bare", name))
    ratio = ratio_of(medians[name], medians["bare"])
    verdict = ratio.within(WITHIN) if "assay" in name else ""
    return [model, bare.text(4), name, theirs.text(4), ratio.text(4), verdict]

"""What a load of searches leaves, however it was driven: one row per search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.records import Window

OK = ""


@dataclass(frozen=True, slots=True, eq=False)
class Searches:
    """All searches of one load, in the order in which they were due; times are of `time.perf_counter_ns`."""

    query: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    outcome: NDArray[np.int16]
    """Position in `kinds`."""
    ids: NDArray[np.int64]
    """Searches × k; -1 where an answer is shorter."""
    kinds: tuple[str, ...]
    """How a search can end; the first is OK."""
    window: tuple[int, int]
    """Begin and end of the measured window."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Kind of failure → the words of one."""
    stopped: str = "finished"
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the way of driving adds, such as the client's own ceiling."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    machine: Window | None = None

    def measured(self) -> NDArray[np.bool_]:
        """Which were due in the measured window."""
        return (self.due_ns >= self.window[0]) & (self.due_ns < self.window[1])

    def warmup(self) -> NDArray[np.bool_]:
        """Which were due before it."""
        return np.asarray(self.due_ns < self.window[0], dtype=np.bool_)

"""Series: what was read again and again, in columns, and what it says about a stretch of time."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from assay.run.probes.prometheus import Kind, Labels

Window = tuple[int, int]
"""Begin and end, of `time.perf_counter_ns`."""


@dataclass(slots=True)
class Series:
    """One number over time."""

    name: str
    labels: Labels
    kind: Kind
    family: str
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))
    unseen_ns: int | None = None
    """The last time that its source was read without it; None if it was there from the beginning."""

    def add(self, at_ns: int, value: float) -> None:
        self.at_ns.append(at_ns)
        self.value.append(value)


@dataclass(frozen=True, slots=True)
class Span:
    """The readings that stand for a window: those inside it, or those around it where it is too short."""

    low: int
    high: int  # one past the last
    exact: bool
    """Whether all of them lie inside the window."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile read from a histogram: somewhere between two edges, by straight line where both are known."""

    value: float | None
    """None where it lies above the last edge."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """How much a histogram grew in a window."""

    count: float
    total: float
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    """Observations up to each edge."""

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count > 0 else None

    def quantile(self, share: float) -> Quantile | None:
        """A quantile; None without observations."""
        if self.count <= 0 or not self.edges:
            return None
        rank, low, below = share * self.count, min(0.0, self.edges[0]), 0.0
        for edge, upto in zip(self.edges, self.counts, strict=True):
            if upto >= rank and upto > below:
                if math.isinf(edge):
                    return Quantile(None, low, math.inf)
                return Quantile(low + (edge - low) * (rank - below) / (upto - below), low, edge)
            low, below = edge, max(below, upto)
        return Quantile(None, low, math.inf)


def span_of(at_ns: Sequence[int], window: Window) -> Span | None:
    """The readings that stand for a window; None if there is no reading at all."""
    low, high = bisect_left(at_ns, window[0]), bisect_right(at_ns, window[1])
    if high - low >= 2:
        return Span(low, high, exact=True)
    low, high = max(0, low - 1), min(len(at_ns), high + 1)
    return Span(low, high, exact=False) if high > low else None


def increase(values: Sequence[float]) -> float:
    """How much a counter grew; one that fell has begun again at zero."""
    total = 0.0
    for before, after in pairwise(values):
        total += after - before if after >= before else after
    return total


def growth(series: Series, window: Window) -> tuple[float, float] | None:
    """How much a counter grew in a window, and in how many seconds; None with fewer than two readings.

    A counter that appears while it is watched was at zero before: servers make some only when first needed.
    """
    at_ns, value = list(series.at_ns), list(series.value)
    if series.unseen_ns is not None:
        at_ns, value = [series.unseen_ns, *at_ns], [0.0, *value]
    span = span_of(at_ns, window)
    if span is None or span.high - span.low < 2:
        return None
    return increase(value[span.low : span.high]), (at_ns[span.high - 1] - at_ns[span.low]) / 1e9


def rate_per_s(series: Series, window: Window) -> float | None:
    """How fast a counter grew; None with fewer than two readings."""
    found = growth(series, window)
    return found[0] / found[1] if found and found[1] > 0 else None


def grown(series: Series, window: Window) -> float:
    """How much a counter grew, zero where that cannot be told."""
    found = growth(series, window)
    return found[0] if found else 0.0


def readings(series: Series, window: Window) -> list[float]:
    """The finite values that a gauge had inside a window, or next to it where there were none inside."""
    low, high = bisect_left(series.at_ns, window[0]), bisect_right(series.at_ns, window[1])
    if low == high and (span := span_of(series.at_ns, window)):
        low, high = span.low, span.high
    return [value for value in series.value[low:high] if math.isfinite(value)]


def histogram_of(buckets: Mapping[float, Sequence[Series]], sums: Sequence[Series], window: Window) -> Histogram | None:
    """How much a histogram grew in a window, several label sets added up."""
    edges = sorted(buckets)
    counts = [sum(grown(one, window) for one in buckets[edge]) for edge in edges]
    if not edges or not math.isinf(edges[-1]):
        return None
    return Histogram(counts[-1], sum(grown(one, window) for one in sums), tuple(edges), tuple(counts))

"""A series that grows: each new point is judged at a small part of the cost of looking at everything again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from assay.analyse.series.detection import LEVEL, detect, points_of
from assay.analyse.series.records import Series, SeriesReport
from assay.analyse.series.scan import FEWEST, step_chance_of_last
from assay.analyse.series.spread import CLIP, median, standardised
from assay.analyse.series.whitening import Growing, Places, Values

# Everything is looked at again after so many points, and each time while the newest change is younger than that.
REFRESH = 16
# Steps older than this are left to the next look at everything.
RECENT = 64
# A new point that makes a step nearly clear enough has everything looked at again.
_NEARLY = 3.0


class State:
    """A series and what is known about it.

    `append` gives the report that `detect` would give, but for this: between two looks at everything (at most 16
    points) sizes, intervals, chances, spread, memory and outliers are those of the last one, and a change that became
    clear more than 64 points back, or only as a span between two steps, waits for the next.
    """

    def __init__(self, series: Series, level: float = LEVEL) -> None:
        self._level = level
        self._values = list(map(float, series.values))
        self._errors = None if series.standard_errors is None else list(map(float, series.standard_errors))
        self._labels = list(series.labels)
        self._better, self._name = series.better, series.name
        self._report = detect(series, level)
        self._tail: Growing | None = None
        self._since = 0
        self._middle, self._spread = 0.0, 0.0
        self._known: tuple[Values, Values] = (np.zeros(1), np.ones(1))
        self._get_ready(series)

    @property
    def report(self) -> SeriesReport:
        """What is known now."""
        return self._report

    @property
    def series(self) -> Series:
        errors = None if self._errors is None else np.array(self._errors)
        return Series(np.array(self._values), self._better, errors, tuple(self._labels), self._name)

    def append(self, value: float, standard_error: float = math.nan, label: str = "") -> SeriesReport:
        """Add the newest point and say what the series shows now.

        Args:
            value: The new result; NaN where it is missing.
        """
        self._values.append(float(value))
        if self._errors is not None:
            self._errors.append(standard_error)
        if self._labels:
            self._labels.append(label)
        if not math.isfinite(value):
            self._report = replace(self._report, missing=self._report.missing + 1)
        elif self._tail is None or self._since >= REFRESH or self._stirs(self._tail, float(value), standard_error):
            self._look_again()
        else:
            self._report = replace(self._report, points=self._report.points + 1)
        return self._report

    def _stirs(self, tail: Growing, value: float, standard_error: float) -> bool:
        """Whether the new point brings a recent step near to being found."""
        self._since += 1
        weight = self._weight(standard_error)
        away = (value - self._middle) / self._spread
        if abs(away) > CLIP / weight:
            return True
        tail.append(away, weight)
        return step_chance_of_last(tail, RECENT) <= min(0.5, _NEARLY * self._level)

    def _weight(self, standard_error: float) -> float:
        """How much a point counts: as the one of the nearest standard error does."""
        if self._errors is None or not math.isfinite(standard_error):
            return 1.0
        return float(self._known[1][int(np.abs(self._known[0] - standard_error).argmin())])

    def _look_again(self) -> None:
        """Detect everything anew."""
        series = self.series
        self._report = detect(series, self._level)
        self._get_ready(series)

    def _get_ready(self, series: Series) -> None:
        """Prepare cheap looks at the part since the last change."""
        self._since = 0
        points = points_of(series)
        begin = 0
        if self._report.findings:
            last = self._report.findings[-1]
            begin = int(np.searchsorted(points.index, last.range[1] if last.kind == "drift" else last.index))
        values, weights = points.values[begin:], points.weights[begin:]
        self._tail = None
        if values.size < max(FEWEST, REFRESH):
            return
        standard, self._spread = standardised(values, weights)
        if not self._spread:
            return
        self._middle = median(values)
        self._known = self._errors_and_weights(series, points.index, points.weights)
        self._tail = Growing.of(standard, weights)

    def _errors_and_weights(self, series: Series, index: Places, weights: Values) -> tuple[Values, Values]:
        if series.standard_errors is None:
            return np.zeros(1), np.ones(1)
        errors = series.standard_errors[index]
        known = np.isfinite(errors)
        return (errors[known], weights[known]) if known.any() else (np.zeros(1), np.ones(1))

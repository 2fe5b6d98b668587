"""What all probes together say about the capacity: a probability for each rate that it might be.

Around the capacity, the log odds of a request to be beyond its limit rise with the logarithm of the rate, by a slope
that is not known, above a floor that the service has at any rate: several slopes and floors are kept side by side, and
the probes decide between them. Far from the capacity nothing is read off that line: a probe far below only says that it
is higher.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from assay.analyse.capacity.evidence import ProbeEvidence

Values = NDArray[np.float64]

# A tail grows by e while the rate grows by one over this: from a service of many speeds to a single full queue.
_SLOPES = (4.0, 7.0, 11.0, 16.0, 24.0, 36.0)
_CELLS = 1200
# The capacity may lie beyond the rates that may be tried; by how much does not matter.
_BEYOND = math.log(4.0)
# The chance that a disturbance made a probe, and that it says nothing at all.
_DISTURBED = 0.01
# Beyond this many log odds a line says nothing more than "above" or "below".
_FAR = 2.5
_FAR_ERRORS = 2.5
# A probe that saw less than the truth is off by more than one that saw more: bunches are rare and large.
_LEFT = 1.5
# Of what may be beyond the limit, some may be there at any rate, from the service itself: shares, and their chances.
_FLOORS = ((0.0, 0.6), (0.1, 0.1), (0.2, 0.1), (0.35, 0.1), (0.6, 0.1))
# The chance that a probe on the good side says nothing about how far the capacity is above.
_ABOVE = 0.05
_UNSURE_BELOW = 0.3  # of a queue that may not have been full yet
# What a service delivers when asked for too much is about what it can deliver: a guess, no bound.
_ABOVE_DELIVERED = 1.05
_REFUTED = 0.1


class CapacityBelief:
    """Probabilities over the logarithm of the capacity."""

    def __init__(self, lowest: float, highest: float) -> None:
        self._at: Values = np.linspace(math.log(lowest) - _BEYOND, math.log(highest) + _BEYOND, _CELLS)
        self._slopes = np.array(_SLOPES)[:, None, None]
        self._floors = np.array([floor for floor, _ in _FLOORS])[:, None]
        chances = np.log([[[chance] for _, chance in _FLOORS]])
        self._log: Values = np.zeros((len(_SLOPES), len(_FLOORS), _CELLS)) + chances
        self._below: Values = np.linspace(0, 1, _CELLS)

    def add(self, seen: ProbeEvidence) -> None:
        """Take one more probe into account."""
        line = np.minimum(self._slopes * (math.log(seen.rate) - self._at), 50.0)
        expected: Values = np.log(self._floors + (1 - self._floors) * np.exp(line))
        likely = math.log(max(seen.delivered_per_s, 1e-9) * _ABOVE_DELIVERED)
        likelihood = self._likelihood(seen, expected) * np.where(self._at > likely, _REFUTED, 1.0)
        self._log += np.log((1 - _DISTURBED) * likelihood + _DISTURBED)
        weight = np.exp(self._log - self._log.max()).sum(axis=(0, 1))
        self._below = np.cumsum(weight) / weight.sum()

    def quantile(self, share: float) -> float:
        """The rate below which the capacity lies with this chance."""
        return math.exp(float(np.interp(share, self._below, self._at)))

    def below(self, rate: float) -> float:
        """The chance that the capacity lies below a rate."""
        return float(np.interp(math.log(rate), self._at, self._below))

    def _likelihood(self, seen: ProbeEvidence, expected: Values) -> Values:
        excess, error = seen.excess, seen.error
        if seen.behind:
            return _normal(expected / error)
        if excess <= -_FAR:
            error *= _LEFT
            above = _normal((max(excess, -max(_FAR, _FAR_ERRORS * error)) - expected) / error)
            return np.maximum(above, _UNSURE_BELOW) if seen.filling else above
        if seen.filling:
            return _normal((expected - excess) / error + 1)
        if excess >= _FAR:
            return _normal((expected - _FAR) / error)
        shape: Values = np.exp(-(((excess - expected) / np.where(excess < expected, _LEFT * error, error)) ** 2) / 2)
        return np.where(expected < excess, np.maximum(shape, _ABOVE), shape)


def _normal(x: Values) -> Values:
    """The normal distribution function, to seven digits (Abramowitz and Stegun 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return np.where(x > 0, 1 - tail, tail)

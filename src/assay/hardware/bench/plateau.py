"""Which size speaks for a curve of memory bandwidth: one on its plateau."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

# STREAM asks for arrays of four times the last-level cache, so that nothing of one pass is left for the next.
TIMES_CACHE = 4
# Sizes this close to the best belong to the same level; the spread of one size is often half of it.
WITHIN = 0.05


@dataclass(frozen=True, slots=True)
class Level:
    """The size that speaks for a curve, and whether the curve is level there."""

    size: int | None
    """None where no size is large enough to say anything about memory."""
    sizes: tuple[int, ...] = ()
    """Those of the plateau; empty where there is none."""
    because: str = ""
    """Why there is no plateau."""

    def facts(self, value: float | None) -> dict[str, JsonValue]:
        """The plateau as it is kept in a result."""
        if self.because:
            return {"absent": self.because}
        return {"bytes": list(self.sizes), "value": value, "within": WITHIN}


def level_of(curve: Sequence[tuple[int, float]], cache: int | None) -> Level:
    """Find the plateau of a curve of (size, value), and the size that is reported.

    Only sizes of four times the last-level cache count. Those within 5 % of the best of them are the plateau, if
    there are two or more and the largest size is one of them. The size in the middle of the plateau, by value, is
    reported: a measured value, not a mean of several, and neither the luckiest nor the unluckiest.

    Where the cache is not known, the plateau begins at the largest size and reaches down as long as the values stay
    within 5 % of that one's.

    A curve without a plateau is reported at its largest size, which is the furthest from any cache, and says so.

    Args:
        cache: bytes of the last-level cache; None where nobody knows.
    """
    points = sorted(curve)
    least = 0 if cache is None else TIMES_CACHE * cache
    large = [point for point in points if point[0] >= least]
    if not large:
        most = f"the largest size measured is {points[-1][0]:,}" if points else "no size was measured"
        return Level(None, (), f"memory shows only beyond the caches, from {least:,} bytes on; {most}")
    last = large[-1]
    if len(large) == 1:
        return Level(last[0], (), "only one size was large enough, so nothing shows whether the curve is level")
    flat = _near_the_best(large) if cache is not None else _from_the_end(large)
    if last not in flat:
        best = max(large, key=_value)
        return Level(last[0], (), f"still falling at the largest size: {last[1]:.4g}, after {best[1]:.4g}")
    if len(flat) == 1:
        before = large[-2]
        way = "rising" if last[1] > before[1] else "falling"
        return Level(last[0], (), f"still {way} at the largest size: {last[1]:.4g}, after {before[1]:.4g}")
    middle = sorted(flat, key=_value)[(len(flat) - 1) // 2]
    return Level(middle[0], tuple(size for size, _ in flat))


def _near_the_best(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    best = max(map(_value, points))
    return [point for point in points if point[1] >= (1 - WITHIN) * best]


def _from_the_end(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    last = points[-1][1]
    flat: list[tuple[int, float]] = []
    for point in reversed(points):
        if abs(point[1] - last) > WITHIN * last:
            break
        flat.insert(0, point)
    return flat


def _value(point: tuple[int, float]) -> float:
    return point[1]

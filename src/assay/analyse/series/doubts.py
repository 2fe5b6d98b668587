"""Two ways in which a piece can look changed without being so: one side is louder, or most values are equal.

A louder side may also be at another level. Ranks and the spread of each side on its own tell the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.analyse.distributions import incomplete_beta, t_tail
from assay.analyse.series.spread import CLIP, OUTLIER, Burst, median, middle_and_spread
from assay.analyse.series.whitening import Values

# A side is louder if equal noise looks so different in one of a hundred cases, and it is by this much.
_CLEARLY_LOUDER = 0.01
_LOUDER = 1.5
# The louder side may hold at most this share of the points: else it is the other one that is quiet, which does no harm.
_LARGEST_SHARE = 0.7
# Two levels are apart if so many of all pairs of their points are in the same order, and the louder noise alone moves
# a mean as far in one of a thousand cases.
_IN_ORDER = 0.95
_BY_NOISE = 0.001
# Fewer points have no spread of their own to speak of.
_FEWEST_APART = 4
# A share of the largest value this small is rounding.
_NOTHING = 1e-12


def louder_side(values: Values, weights: Values, places: Sequence[int]) -> tuple[slice, float] | None:
    """The part of a piece whose noise is clearly larger than that of the rest, and how much larger.

    Differences of neighbours are compared: they show the noise alone, whatever the levels are.

    Args:
        places: The change that was seen: one place for a step, two for a span.
    """
    inside = slice(places[0], places[1] if len(places) > 1 else values.size)
    steps = np.diff(values) * weights[1:]
    apart = np.ones(steps.size, dtype=bool)
    apart[[place - 1 for place in places if place <= steps.size]] = False
    within = np.zeros(steps.size, dtype=bool)
    within[inside.start : inside.stop - 1] = True
    limit = CLIP * 2 * middle_and_spread(steps)[1]
    parts = [np.minimum(np.abs(steps[one & apart]), limit) for one in (within, ~within)]
    if min(part.size for part in parts) < 2:
        return None
    squares = [float((part**2).mean()) for part in parts]
    for loud, quiet, side in ((0, 1, inside), (1, 0, slice(0, inside.start))):
        if loud and len(places) > 1:
            break  # all but a span: the rest of the piece decides what is usual
        size = parts[loud].size
        if size > _LARGEST_SHARE * steps.size or squares[loud] <= _LOUDER**2 * squares[quiet]:
            continue
        if not squares[quiet] or _tail(squares[loud] / squares[quiet], size, parts[quiet].size) < _CLEARLY_LOUDER:
            return side, math.sqrt(squares[loud] / squares[quiet]) if squares[quiet] else math.inf
    return None


def levels_apart(loud: Values, quiet: Values) -> bool:
    """Whether two parts are at different levels, whatever the noise of each is.

    Ranks need no common spread and no memory. Loud noise alone can put a few points on one side of a quiet level, so
    the mean of the loud part must also be far from it in units of its own spread (Welch).
    """
    if min(loud.size, quiet.size) < _FEWEST_APART:
        return False
    ranked = np.sort(quiet)
    below = np.searchsorted(ranked, loud, "left") + np.searchsorted(ranked, loud, "right")
    in_order = float(below.mean()) / (2 * quiet.size)
    if max(in_order, 1 - in_order) < _IN_ORDER:
        return False
    error = math.sqrt(float(loud.var(ddof=1)) / loud.size + float(quiet.var(ddof=1)) / quiet.size)
    gap = abs(float(loud.mean() - quiet.mean()))
    return gap > 0 and (not error or t_tail(gap / error, loud.size - 1) < _BY_NOISE)


def another_level(values: Values, burst: Burst) -> bool:
    """Whether a time of noise is at another level than what comes before or after it.

    The ends of a burst are vague, so only its middle is compared.
    """
    edge = max(2, (burst.last + 1 - burst.first) // 6)
    core = values[burst.first + edge : burst.last + 1 - edge]
    return any(levels_apart(core, beside) for beside in (values[: burst.first], values[burst.last + 1 :]))


def place_of_levels(values: Values, place: int) -> Values:
    """How likely each place is for a step between two levels of different noise: twice the log-likelihood.

    Each side has its own middle and spread, so a few loud points near the quiet level do not move the place, and small
    moves of the quiet side do not either.

    Returns:
        One number for each place from 1 on.
    """
    sides = [middle_and_spread(values[:place]), middle_and_spread(values[place:])]
    least = max(max(spread for _, spread in sides) / OUTLIER**2, _NOTHING * float(np.abs(values).max()))
    before, after = (
        -2 * math.log(max(spread, least)) - np.minimum(((values - middle) / max(spread, least)) ** 2, OUTLIER**2)
        for middle, spread in sides
    )
    return np.asarray(np.cumsum(before - after)[:-1])


def _tail(ratio: float, above: int, below: int) -> float:
    """How often two equal noises differ as much (Fisher's F); differences share points, so two of three count."""
    a, b = above * 2 / 3, below * 2 / 3
    return incomplete_beta(b / (b + a * ratio), b / 2, a / 2)


def mostly_equal(values: Values) -> bool:
    """Whether more than half of the values are the same."""
    return median(np.abs(values - median(values))) == 0.0


def counted(values: Values, places: Sequence[int]) -> float:
    """How clearly values that are mostly equal differ in number: twice the log of the ratio of likelihoods.

    Where most values are the same, a spread says little: two odd ones side by side look like a step. How many are odd
    on each side does not deceive.
    """
    odd = values != median(values)
    end = places[1] if len(places) > 1 else values.size
    inside = odd[places[0] : end]
    whole, part = int(odd.sum()), int(inside.sum())
    return 2 * (
        _likelihood(part, inside.size)
        + _likelihood(whole - part, odd.size - inside.size)
        - _likelihood(whole, odd.size)
    )


def _likelihood(hits: int, tries: int) -> float:
    if not 0 < hits < tries:
        return 0.0
    return hits * math.log(hits / tries) + (tries - hits) * math.log1p(-hits / tries)

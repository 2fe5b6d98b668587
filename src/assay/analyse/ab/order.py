"""Whether the order of runs matters: the second run of a pair against the first.

It does not harm the comparison, since the order is drawn by lot; it says that runs are not as alike as they look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.analyse.ab.betting import fewest_blocks
from assay.analyse.ab.pairs import Pair, Values, scale_of, second_against_first
from assay.analyse.distributions import t_quantile
from assay.analyse.words import percent

# Asked once, at the end, of every experiment: one in a hundred may be luck.
_LEVEL = 0.99


def order_note(pairs: Sequence[Pair]) -> str:
    """The sentence that says that order matters, and by how much; empty where the pairs do not show it."""
    scale = scale_of(pairs)
    if not scale.logarithmic and scale.base == 0:
        return ""
    found = second_against_first(pairs, scale)
    if found.size < fewest_blocks():
        return ""
    ends = _mean_interval(found)
    if ends[0] <= 0 <= ends[1]:
        return ""
    low, high = (percent(scale.relative(end), signed=True) for end in ends)
    shown = percent(scale.relative(float(found.mean())), signed=True)
    return (
        f"run order matters: the second run of a pair gives {shown} [{low}, {high}] against the first; the order is "
        "balanced and drawn by lot, so the comparison stands"
    )


def _mean_interval(values: Values) -> tuple[float, float]:
    half = t_quantile(_LEVEL, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    mean = float(values.mean())
    return mean - half, mean + half

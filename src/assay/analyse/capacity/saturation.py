"""Whether a service falls behind for good, from the counts that a load loop keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Counts = Sequence[float] | NDArray[np.float64] | NDArray[np.int64]

# A shorter look would take a pause of the service for its end.
SHORTEST_S = 5.0
# The time that the first answers take fills the pipe: requests in flight rise and nothing is wrong.
_FILLING = 5.0
_BEHIND = 0.93
_KEEPS_UP = 0.97
_BLOCKS = 4
# Standard deviations of a Poisson count. The question is put many times in one run, so the limit is high.
_SURE = 4.0
_USUAL = 2.0
# In a pipe that only fills, completions catch up with arrivals; the deficit of a saturated service stays. And a pause
# makes its whole deficit at once, in one half of the look.
_LATE = 0.35
_EARLY = 0.25


def saturated(t: Counts, in_flight: Counts, due: Counts, done: Counts, latency_s: float = 0.0) -> bool | None:
    """Whether the service falls behind for good.

    Args:
        t: Seconds, rising, one entry per look of the load loop (some each second).
        latency_s: About how long one answer takes when nothing else is asked, where it is known.

    Returns:
        True where requests in flight grew steadily and far fewer ended than were due, longer than chance or the
        filling of the pipe explains; False where the service keeps up; None where it cannot be told yet.
    """
    at, open_, came, went = (np.asarray(series, dtype=np.float64) for series in (t, in_flight, due, done))
    if at.size < 2 * _BLOCKS:
        return None
    elapsed = float(at[-1] - at[0])
    if elapsed < SHORTEST_S + _FILLING * latency_s:
        return None
    # The longer the load goes on, the longer a pause it may have had.
    begin = int(np.searchsorted(at, at[-1] - max(SHORTEST_S, elapsed / 2)))
    middle = (begin + at.size - 1) // 2
    arrivals = float(came[-1] - came[begin])
    deficit = arrivals - float(went[-1] - went[begin])
    if deficit <= max((1 - _KEEPS_UP) * arrivals, _USUAL * math.sqrt(arrivals)):
        return False
    late = float((came[-1] - came[middle]) - (went[-1] - went[middle]))
    behind = deficit > max((1 - _BEHIND) * arrivals, _SURE * math.sqrt(arrivals))
    levels = [float(block.mean()) for block in np.array_split(open_[begin:], _BLOCKS)]
    grows = all(after > before for before, after in pairwise(levels))
    stays = _LATE * deficit <= late <= (1 - _EARLY) * deficit
    return True if behind and grows and stays else None

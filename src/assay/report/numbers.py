"""Numbers as people read them: no more digits than the doubt allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.analyse.headline import centre_of, is_quality
from assay.analyse.intervals import TAILS, relative_half_width, samples_needed
from assay.analyse.records import Interval, MetricStatistics
from assay.metrics import describe

NOTHING = "-"  # stands where a number is not known

# The rule of the Particle Data Group: two digits of a half width that begins with 10 to 35, else one.
# More would be noise, and fewer would hide the doubt.
_SMALL_LEAD = 3.55
_DIGITS_WITHOUT_DOUBT = 4
_FEWEST_DIGITS = 2  # of the value itself, however wide the doubt: it stands right beside it
_MOST_DIGITS = 6
_ROUND_FROM = 1e5  # below, whole numbers keep all their digits: 5,542 rounded to 5,540 looks like another number


@dataclass(frozen=True, slots=True)
class ShownStatistics:
    """A metric's median with its doubt, written with the same number of decimals throughout."""

    median: str
    interval: str  # `[low, high]`, or why there is none
    spread: str  # `±1.2 %`, or `±?` when nothing is known


def decimals_for(value: float, half_width: float | None) -> int:
    """How many decimals a value deserves; negative means that tens or hundreds are rounded away."""
    if not math.isfinite(value):
        return 0
    leading = math.floor(math.log10(abs(value))) if value else 0
    if half_width is None or not math.isfinite(half_width) or half_width <= 0:
        places = _DIGITS_WITHOUT_DOUBT - 1 - leading
        return places if abs(value) >= _ROUND_FROM else max(places, 0)
    power = math.floor(math.log10(half_width))
    digits = 2 if half_width / 10**power < _SMALL_LEAD else 1
    places = min(max(digits - 1 - power, _FEWEST_DIGITS - 1 - leading), _MOST_DIGITS - 1 - leading)
    return places if abs(value) >= _ROUND_FROM else max(places, 0)


def show(value: float | None, decimals: int | None = None) -> str:
    """Write a number with thousands separators, or `-` when there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    places = decimals_for(value, None) if decimals is None else decimals
    rounded = round(value, places)
    if rounded == 0 and value != 0:
        return f"{value:.2g}"
    if abs(rounded) >= 1e9 or places > 9:
        return f"{value:.4g}"
    return f"{rounded:,.{max(places, 0)}f}"


def decimals_of(stats: MetricStatistics) -> int:
    """How many decimals every number of this metric is written with."""
    return decimals_for(stats.median, stats.interval.half_width if stats.interval else None)


def show_statistics(stats: MetricStatistics, name: str = "") -> ShownStatistics:
    """Write the median of a metric, or the mean of a score, together with its interval."""
    places = decimals_of(stats)
    centre = show(centre_of(stats, name), places) + (" (mean)" if is_quality(name) and stats.count > stats.runs else "")
    return ShownStatistics(centre, show_interval(stats, places), show_spread(stats.interval))


def show_interval(stats: MetricStatistics, places: int) -> str:
    """Write `[low, high]`, or say why there is no interval."""
    if stats.interval is None:
        return "(one run)" if stats.runs == 1 else "(no interval)"
    return f"[{show(stats.interval.low, places)}, {show(stats.interval.high, places)}]"


def show_tail(stats: MetricStatistics, statistic: str) -> str:
    """Write a percentile with its interval, `14.2 [13.8, 15.1]`; without one where the samples end too soon."""
    places, interval = decimals_of(stats), stats.tails.get(statistic)
    value = show(getattr(stats, statistic), places)
    return value if interval is None else f"{value} [{show(interval.low, places)}, {show(interval.high, places)}]"


def show_spread(interval: Interval | None) -> str:
    """Write how far the interval reaches from its centre, `±1.2 %`: the number that the checks judge."""
    if interval is None:
        return "±?"
    share = relative_half_width(interval)
    return f"±{show_percent(share)}" if math.isfinite(share) else "±?"


def show_percent(share: float, *, signed: bool = False) -> str:
    """Write a share as a percentage with one decimal while it is small: `+4.2 %`, `31 %`."""
    percent = share * 100
    sign = "+" if signed else ""
    if 0 < abs(percent) < 0.05:
        return f"{'-' if percent < 0 else sign}<0.1 %"
    return f"{percent:{sign},.{1 if abs(percent) < 9.95 else 0}f} %"


def show_count(runs: int, count: int) -> str:
    """Write runs × samples per run: `5×2,310`, with `~` where the runs differ."""
    if runs == 0:
        return NOTHING
    share, rest = divmod(count, runs)
    return f"{runs}×{'~' if rest else ''}{share:,}"


def tail_needs(statistic: str) -> str:
    """Why a percentile is not given: `p99 needs 662 samples`."""
    return f"{statistic.replace('_', '.')} needs {samples_needed(TAILS[statistic]):,} samples"


def name_with_unit(metric: str, unit: str) -> str:
    """A metric's name, with its unit in parentheses where the name does not already say it."""
    return metric if not unit or describe(metric).unit == unit else f"{metric} ({unit})"

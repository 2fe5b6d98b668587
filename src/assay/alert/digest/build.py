"""A digest from what was read: pure, so that the same material always tells the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from statistics import median

from assay.alert.digest.records import (
    AlertSummary,
    Digest,
    DigestMaterial,
    FailedJob,
    Movement,
    MovementGroup,
    NoisySeries,
    RecordedDifference,
    SeriesHealth,
    SilentJob,
)
from assay.analyse.intervals import smallest_effect
from assay.analyse.series import LEVEL
from assay.analyse.series.scan import SPLITS
from assay.analyse.text import percent

# A series that hides changes up to this is told as noisy.
NOISY_FROM = 0.05
# A spread from fewer results is not known well enough to speak of.
_FEWEST = 8
# Quiet for so many times the usual pause, and for a day at least.
_PAUSES = 3.0
SILENT_FROM_S = 86_400.0
# Somebody who measured for an afternoon did not promise to go on.
_LIVED_S = 5 * 86_400.0
# Those silent for so many times the time of the digest were told in the ones before.
_OLD_NEWS = 4.0
_DEALT_WITH = ("acknowledged", "snoozed", "expected", "resolved")
# In this order they are told: first what somebody here did.
ORDER = ("code", "data or model", "environment", "machine", "method", "unknown", "noise")
# Changes further apart are two stories, whatever differs.
_APART_S = 36 * 3600.0
# A list longer than this tells nothing.
_MOST = 3
_HASH = 12
_NUMBERS = re.compile(r", (?:as it did|and at none)| \(")
_ANSWERS = {"worse": 0, "cannot tell": 1, "better": 2}
# So many results after a change; a week of nights.
WITHIN = 7
# The detector looks for spans and drifts too, holds wild points back and must learn spread and memory from the series
# itself. All of that costs a little: so much of the chance that is left for a step, as simulation shows.
_SHARE = 0.4
_SCORES = (10.8, 60.0)  # where it ends; the lower end is for short series, whose own spread is hardly known
# Lengths are rounded to powers of this, and memories to a twentieth: what is known of one series is good for its like.
_STEP = 1.25


def build(material: DigestMaterial, since: float, until: float, version: str = "") -> Digest:
    alerts = {finding: one for one in material.alerts for finding in one.findings}
    # Changes that happened in this time, or were found in it: one may become clear only weeks after it came.
    moved = [
        _with_alert(one, alerts.get(one.id))
        for one in material.movements
        if since <= one.at <= until or (since <= one.found_at <= until and one.at <= until)
    ]
    told = {one.alert for one in moved if one.alert}
    handled = [one for one in material.alerts if one.state in _DEALT_WITH and since <= one.changed_at <= until]
    settled = {finding for one in handled for finding in one.findings}
    moments = [one.last_at for one in material.series if one.last_at is not None]
    silent, long_silent = _silent(material.series, since, until)
    return Digest(
        since=since,
        until=until,
        source=material.source,
        series=len(material.series),
        fresh=sum(since <= at <= until for at in moments),
        last_at=max(moments, default=None),
        groups=grouped(moved),
        failed=failures(one for one in material.failed if since <= one.last_at <= until),
        noisy=noisy(material.series, since),
        handled=tuple(sorted(handled, key=lambda one: -one.changed_at)),
        expected=tuple(one for one in moved if one.state == "expected" and one.id not in settled),
        alerts=tuple(one for one in material.alerts if one.state == "open" and one.id not in told),
        silent=silent,
        long_silent=long_silent,
        assay_version=version,
    )


def _with_alert(one: Movement, alert: AlertSummary | None) -> Movement:
    """A change with what people did about it: that it is expected says most."""
    if alert is None:
        return one
    state = next((word for word in _DEALT_WITH if alert.state == word), one.state)
    return replace(one, alert=alert.id, state=one.state if one.state == "expected" else state)  # type: ignore[arg-type]


def failures(failed: Iterable[FailedJob]) -> tuple[FailedJob, ...]:
    """Failed jobs, those of one kind and reason as one line, the newest first."""
    lines: dict[tuple[str, str, str], FailedJob] = {}
    for one in sorted(failed, key=lambda one: one.last_at):
        key = (one.benchmark, one.label, one.why)
        known = lines.get(key)
        lines[key] = one if known is None else replace(one, first_at=known.first_at, times=known.times + one.times)
    return tuple(sorted(lines.values(), key=lambda one: -one.last_at))


def noisy(series: Sequence[SeriesHealth], since: float) -> tuple[NoisySeries, ...]:
    """Series that hide changes of five percent and more, or were louder than else since a moment; the worst first."""
    found: list[NoisySeries] = []
    for one in series:
        if one.spread is None or one.points < _FEWEST or one.last_at is None or one.last_at < since:
            continue
        smallest = smallest_change(one.spread, one.memory, one.points)
        loud = one.loud_until is not None and one.loud_until >= since
        why = [f"its results differ by {percent(one.spread)} from one to the next"]
        if one.memory >= 0.2:
            why.append(f"each hands {percent(one.memory)} of its deviation on to the next")
        if loud:
            why.append(f"of late it was {one.louder:.1f} times as loud as else")
        if smallest >= NOISY_FROM or loud:
            found.append(NoisySeries(one.series, one.spread, one.memory, one.points, smallest, WITHIN, tuple(why)))
    return tuple(sorted(found, key=lambda one: -one.smallest))


def long_ago(since: float, until: float) -> float:
    """The moment before which a silence is old news: earlier digests reported it."""
    return until - _OLD_NEWS * (until - since)


def _silent(series: Sequence[SeriesHealth], since: float, until: float) -> tuple[tuple[SilentJob, ...], int]:
    """Jobs that stopped giving results, the newest silence first; and how many series more have long been silent."""
    found: dict[tuple[str, str, str], SilentJob] = {}
    old = 0
    for one in series:
        if one.last_at is not None and one.last_at < long_ago(since, until):
            old += one.points >= _FEWEST
            continue
        if len(one.recent) < _FEWEST:
            continue
        last = one.recent[-1]
        usual = median(b - a for a, b in pairwise(one.recent))
        if last - one.recent[0] < _LIVED_S or until - last <= max(_PAUSES * usual, SILENT_FROM_S):
            continue
        key = (one.series.benchmark, one.series.point, one.series.machine)
        known = found.get(key)
        metrics = (*known.metrics, one.series.metric) if known else (one.series.metric,)
        found[key] = SilentJob(one.series, metrics, last if known is None else max(last, known.last_at), usual)
    return tuple(sorted(found.values(), key=lambda one: -one.last_at)), old


def grouped(movements: Iterable[Movement]) -> tuple[MovementGroup, ...]:
    """Group changes of one cause that came together: those that share a difference, or that have none to share.

    Groups with something that became worse come first, then the order of the causes, then the newest.
    """
    groups: list[list[Movement]] = []
    for one in sorted(movements, key=lambda one: one.at):
        home = next((group for group in groups if _belongs(one, group)), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return tuple(sorted((_group(one) for one in groups), key=_rank))


def _belongs(one: Movement, group: Sequence[Movement]) -> bool:
    if group[0].cause != one.cause or one.at - group[-1].at > _APART_S:
        return False
    shared = _shared(group)
    if shared or one.differs:
        return bool(set(shared) & set(one.differs))
    return group[0].series.benchmark == one.series.benchmark


def _shared(group: Sequence[Movement]) -> tuple[RecordedDifference, ...]:
    return tuple(one for one in group[0].differs if all(one in other.differs for other in group))


def _group(movements: Sequence[Movement]) -> MovementGroup:
    ordered = tuple(sorted(movements, key=lambda one: (_ANSWERS[one.answer], -abs(one.change or 0.0))))
    # The same reason has other numbers in each series; once is enough.
    why: dict[str, str] = {}
    for sentence in (each for one in ordered for each in one.why):
        why.setdefault(_NUMBERS.split(sentence)[0], sentence)
    return MovementGroup(ordered[0].cause, title_of(_shared(movements)), ordered, tuple(why.values()))


def told_in_title(one: Movement, group: MovementGroup) -> bool:
    """Whether the title of its group says all that differs for a change."""
    shared = _shared(group.movements)
    return len(shared) <= _MOST and set(one.differs) <= set(shared)


def title_of(shared: Sequence[RecordedDifference]) -> str:
    """What differs, on one line."""
    told = [f"{one.name} {short(one.before)} → {short(one.after)}" for one in shared[:_MOST]]
    more = [f"{len(shared) - _MOST} more"] if len(shared) > _MOST else []
    return ", ".join([*told, *more]) or "nothing that is recorded differs for all of them"


def short(text: str) -> str:
    """A value on one line: the beginning of a hash is enough to know it by."""
    is_hash = len(text) >= 32 and all(letter in "0123456789abcdef" for letter in text.removeprefix("sha256:"))
    return text.removeprefix("sha256:")[:_HASH] if is_hash else text or "none"


def _rank(group: MovementGroup) -> tuple[bool, int, float]:
    worse = any(one.answer == "worse" and one.state == "open" for one in group.movements)
    place = ORDER.index(group.cause) if group.cause in ORDER else len(ORDER)
    return not worse, place, -max(one.at for one in group.movements)


def smallest_change(spread: float, memory: float, points: int, within: int = WITHIN) -> float:
    """The step, as a share, that the detector tells in about four of five series after so many further results.

    A comparison of two halves of the series would need a known shift of its statistic to be told. The same shift is
    needed here, but the information is that of a few points after the step against all before it; where points resemble
    the one before (memory), each further one says less.
    """
    shift = _shift(round(_STEP ** round(math.log(max(points, 4), _STEP))), round(20 * memory) / 20)
    known = 1 / (1 / _information(within, memory) + 1 / _information(max(points - within, 2), memory))
    return math.expm1(spread * shift / math.sqrt(known))


@lru_cache(maxsize=1024)
def _shift(points: int, memory: float) -> float:
    """The shift of a comparison's statistic that is told in four of five cases."""
    half = points // 2
    return smallest_effect(half, level=_level(points, memory)) * math.sqrt(half / 2)


def _level(points: int, memory: float) -> float:
    """How sure one place must be, for the clearest of all places to be told."""
    low, high = _SCORES
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if SPLITS.chance(middle, points, memory) > _SHARE * LEVEL else (low, middle)
    return math.erf(math.sqrt(high / 2))


def _information(count: int, memory: float) -> float:
    """What so many points say about their level, in points that do not resemble each other.

    The first one after a step says more than itself where the level before is known: the part that it should have
    taken over from its neighbour is missing.
    """
    return (1 + (count - 1) * (1 - memory) ** 2) / (1 - memory**2)

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

# A series that hides changes up to this is listed as noisy.
NOISY_FROM = 0.05
# A spread from fewer results is not known well enough to speak of.
_FEWEST = 8
# Silent after this many times the usual pause, and after a day at the earliest.
_PAUSES = 3.0
SILENT_FROM_S = 86_400.0
# One afternoon of measuring does not make a job regular.
_LIVED_S = 5 * 86_400.0
# Those silent for this many times the time of the digest were listed in earlier digests.
_OLD_NEWS = 4.0
_DEALT_WITH = ("acknowledged", "snoozed", "expected", "resolved")
# The order of the list: first what people here changed.
ORDER = ("code", "data or model", "environment", "machine", "method", "unknown", "noise")
# Changes further apart are two stories, whatever differs.
_APART_S = 36 * 3600.0
# A list longer than this tells nothing.
_MOST = 3
_HASH = 12
_NUMBERS = re.compile(r", (?:as it did|and at none)| \(")
_ANSWERS = {"worse": 0, "cannot tell": 1, "better": 2}
# A week of nights: this many results after a change.
WITHIN = 7
# The detector looks for spans and drifts too, holds wild points back and must learn spread and memory from the series
# itself. All of that costs a little: so much of the chance that is left for a step, as simulation shows.
_SHARE = 0.4
_SCORES = (10.8, 60.0)  # where it ends; the lower end is for short series, whose own spread is hardly known
# Lengths are rounded to powers of this, and memories to a twentieth: what is known of one series is good for its like.
_STEP = 1.25


def build(material: DigestMaterial, since: float, until: float, version: str = "") -> Digest:
    alerts = {finding: alert for alert in material.alerts for finding in alert.findings}
    # Changes that happened in this time, or were found in it: one may become clear only weeks after it came.
    moved = [
        _with_alert(movement, alerts.get(movement.id))
        for movement in material.movements
        if since <= movement.at <= until or (since <= movement.found_at <= until and movement.at <= until)
    ]
    linked_alerts = {movement.alert for movement in moved if movement.alert}
    handled = [alert for alert in material.alerts if alert.state in _DEALT_WITH and since <= alert.changed_at <= until]
    settled = {finding for alert in handled for finding in alert.findings}
    moments = [series.last_at for series in material.series if series.last_at is not None]
    silent, long_silent = _silent(material.series, since, until)
    return Digest(
        since=since,
        until=until,
        source=material.source,
        series=len(material.series),
        fresh=sum(since <= at <= until for at in moments),
        last_at=max(moments, default=None),
        groups=grouped(moved),
        failed=failures(job for job in material.failed if since <= job.last_at <= until),
        noisy=noisy(material.series, since),
        handled=tuple(sorted(handled, key=lambda alert: -alert.changed_at)),
        expected=tuple(movement for movement in moved if movement.state == "expected" and movement.id not in settled),
        alerts=tuple(alert for alert in material.alerts if alert.state == "open" and alert.id not in linked_alerts),
        silent=silent,
        long_silent=long_silent,
        assay_version=version,
    )


def _with_alert(movement: Movement, alert: AlertSummary | None) -> Movement:
    """A change with what people did about it: that it is expected says most."""
    if alert is None:
        return movement
    state = next((word for word in _DEALT_WITH if alert.state == word), movement.state)
    return replace(movement, alert=alert.id, state=movement.state if movement.state == "expected" else state)  # type: ignore[arg-type]


def failures(failed: Iterable[FailedJob]) -> tuple[FailedJob, ...]:
    """Failed jobs, those of one kind and reason as one line, the newest first."""
    lines: dict[tuple[str, str, str], FailedJob] = {}
    for job in sorted(failed, key=lambda failure: failure.last_at):
        key = (job.benchmark, job.label, job.why)
        previous = lines.get(key)
        lines[key] = (
            job if previous is None else replace(job, first_at=previous.first_at, times=previous.times + job.times)
        )
    return tuple(sorted(lines.values(), key=lambda line: -line.last_at))


def noisy(series: Sequence[SeriesHealth], since: float) -> tuple[NoisySeries, ...]:
    """Series that hide changes of five percent and more, or were louder than else since a moment; the worst first."""
    noisy_series: list[NoisySeries] = []
    for health in series:
        if health.spread is None or health.points < _FEWEST or health.last_at is None or health.last_at < since:
            continue
        smallest = smallest_change(health.spread, health.memory, health.points)
        loud = health.loud_until is not None and health.loud_until >= since
        why = [f"its results differ by {percent(health.spread)} from one to the next"]
        if health.memory >= 0.2:
            why.append(f"each hands {percent(health.memory)} of its deviation on to the next")
        if loud:
            why.append(f"of late it was {health.louder:.1f} times as loud as else")
        if smallest >= NOISY_FROM or loud:
            noisy_series.append(
                NoisySeries(health.series, health.spread, health.memory, health.points, smallest, WITHIN, tuple(why))
            )
    return tuple(sorted(noisy_series, key=lambda entry: -entry.smallest))


def long_ago(since: float, until: float) -> float:
    """The moment before which a silence is old news: earlier digests reported it."""
    return until - _OLD_NEWS * (until - since)


def _silent(series: Sequence[SeriesHealth], since: float, until: float) -> tuple[tuple[SilentJob, ...], int]:
    """Jobs that stopped giving results, the newest silence first; and how many series more have long been silent."""
    silent_jobs: dict[tuple[str, str, str], SilentJob] = {}
    old = 0
    for health in series:
        if health.last_at is not None and health.last_at < long_ago(since, until):
            old += health.points >= _FEWEST
            continue
        if len(health.recent) < _FEWEST:
            continue
        last = health.recent[-1]
        usual = median(b - a for a, b in pairwise(health.recent))
        if last - health.recent[0] < _LIVED_S or until - last <= max(_PAUSES * usual, SILENT_FROM_S):
            continue
        key = (health.series.benchmark, health.series.point, health.series.machine)
        previous = silent_jobs.get(key)
        metrics = (*previous.metrics, health.series.metric) if previous else (health.series.metric,)
        silent_jobs[key] = SilentJob(
            health.series, metrics, last if previous is None else max(last, previous.last_at), usual
        )
    return tuple(sorted(silent_jobs.values(), key=lambda job: -job.last_at)), old


def grouped(movements: Iterable[Movement]) -> tuple[MovementGroup, ...]:
    """Group changes of one cause that came together: those that share a difference, or that have none to share.

    Groups with something that became worse come first, then the order of the causes, then the newest.
    """
    groups: list[list[Movement]] = []
    for movement in sorted(movements, key=lambda change: change.at):
        home = next((group for group in groups if _belongs(movement, group)), None)
        if home is None:
            groups.append([movement])
        else:
            home.append(movement)
    return tuple(sorted((_group(members) for members in groups), key=_rank))


def _belongs(movement: Movement, group: Sequence[Movement]) -> bool:
    if group[0].cause != movement.cause or movement.at - group[-1].at > _APART_S:
        return False
    shared = _shared(group)
    if shared or movement.differs:
        return bool(set(shared) & set(movement.differs))
    return group[0].series.benchmark == movement.series.benchmark


def _shared(group: Sequence[Movement]) -> tuple[RecordedDifference, ...]:
    return tuple(difference for difference in group[0].differs if all(difference in other.differs for other in group))


def _group(movements: Sequence[Movement]) -> MovementGroup:
    ordered = tuple(sorted(movements, key=lambda movement: (_ANSWERS[movement.answer], -abs(movement.change or 0.0))))
    # The same reason has other numbers in each series; once is enough.
    why: dict[str, str] = {}
    for sentence in (reason for movement in ordered for reason in movement.why):
        why.setdefault(_NUMBERS.split(sentence)[0], sentence)
    return MovementGroup(ordered[0].cause, title_of(_shared(movements)), ordered, tuple(why.values()))


def named_in_title(movement: Movement, group: MovementGroup) -> bool:
    """Whether the title of its group says all that differs for a change."""
    shared = _shared(group.movements)
    return len(shared) <= _MOST and set(movement.differs) <= set(shared)


def title_of(shared: Sequence[RecordedDifference]) -> str:
    """What differs, on one line."""
    phrases = [
        f"{difference.name} {short(difference.before)} → {short(difference.after)}" for difference in shared[:_MOST]
    ]
    more = [f"{len(shared) - _MOST} more"] if len(shared) > _MOST else []
    return ", ".join([*phrases, *more]) or "nothing that is recorded differs for all of them"


def short(text: str) -> str:
    """A value on one line: the beginning of a hash is enough to know it by."""
    is_hash = len(text) >= 32 and all(letter in "0123456789abcdef" for letter in text.removeprefix("sha256:"))
    return text.removeprefix("sha256:")[:_HASH] if is_hash else text or "none"


def _rank(group: MovementGroup) -> tuple[bool, int, float]:
    worse = any(movement.answer == "worse" and movement.state == "open" for movement in group.movements)
    place = ORDER.index(group.cause) if group.cause in ORDER else len(ORDER)
    return not worse, place, -max(movement.at for movement in group.movements)


def smallest_change(spread: float, memory: float, points: int, within: int = WITHIN) -> float:
    """The step, as a share, that the detector finds in about four of five series after this many further results.

    A comparison of two halves of the series would need a known shift of its statistic to find it. The same shift is
    needed here, but the information is that of a few points after the step against all before it; where points resemble
    the one before (memory), each further one says less.
    """
    shift = _shift(round(_STEP ** round(math.log(max(points, 4), _STEP))), round(20 * memory) / 20)
    information = 1 / (1 / _information(within, memory) + 1 / _information(max(points - within, 2), memory))
    return math.expm1(spread * shift / math.sqrt(information))


@lru_cache(maxsize=1024)
def _shift(points: int, memory: float) -> float:
    """The shift of a comparison's statistic that is found in four of five cases."""
    half = points // 2
    return smallest_effect(half, level=_level(points, memory)) * math.sqrt(half / 2)


def _level(points: int, memory: float) -> float:
    """How sure one place must be, for the clearest of all places to be reported."""
    low, high = _SCORES
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if SPLITS.chance(middle, points, memory) > _SHARE * LEVEL else (low, middle)
    return math.erf(math.sqrt(high / 2))


def _information(count: int, memory: float) -> float:
    """What `count` points say about their level, in points that do not resemble each other.

    The first one after a step says more than itself where the level before is known: the part that it should have
    taken over from its neighbour is missing.
    """
    return (1 + (count - 1) * (1 - memory) ** 2) / (1 - memory**2)

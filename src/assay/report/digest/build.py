"""A digest from what was read: pure, so that the same material always tells the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from assay.analyse.words import percent
from assay.report.digest.causes import grouped
from assay.report.digest.records import Digest, Failed, Material, Movement, Noisy, Silent, Told, Watched
from assay.report.digest.visible import WITHIN, smallest_change

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


def build(material: Material, since: float, until: float, version: str = "") -> Digest:
    alerts = {finding: one for one in material.alerts for finding in one.findings}
    moved = [_with_alert(one, alerts.get(one.id)) for one in material.movements if _tells(one, since, until)]
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


def _tells(one: Movement, since: float, until: float) -> bool:
    """Whether a change happened, or was found, in a time; one may become clear only weeks after it came."""
    return since <= one.at <= until or (since <= one.found_at <= until and one.at <= until)


def _with_alert(one: Movement, alert: Told | None) -> Movement:
    """A change with what people did about it: that it is expected says most."""
    if alert is None:
        return one
    state = next((word for word in _DEALT_WITH if alert.state == word), one.state)
    return replace(one, alert=alert.id, state=one.state if one.state == "expected" else state)  # type: ignore[arg-type]


def failures(failed: Iterable[Failed]) -> tuple[Failed, ...]:
    """Failed jobs, those of one kind and reason as one line, the newest first."""
    lines: dict[tuple[str, str, str], Failed] = {}
    for one in sorted(failed, key=lambda one: one.last_at):
        key = (one.benchmark, one.label, one.why)
        known = lines.get(key)
        lines[key] = one if known is None else replace(one, first_at=known.first_at, times=known.times + one.times)
    return tuple(sorted(lines.values(), key=lambda one: -one.last_at))


def noisy(series: Sequence[Watched], since: float) -> tuple[Noisy, ...]:
    """Series that hide changes of five percent and more, or were louder than else since a moment; the worst first."""
    found: list[Noisy] = []
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
            found.append(Noisy(one.series, one.spread, one.memory, one.points, smallest, WITHIN, tuple(why)))
    return tuple(sorted(found, key=lambda one: -one.smallest))


def long_ago(since: float, until: float) -> float:
    """The moment before which a silence is no news any more: the digests before this one told it."""
    return until - _OLD_NEWS * (until - since)


def _silent(series: Sequence[Watched], since: float, until: float) -> tuple[tuple[Silent, ...], int]:
    """Jobs that give no results any more, the newest silence first; and how many series more have long been silent."""
    found: dict[tuple[str, str, str], Silent] = {}
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
        found[key] = Silent(one.series, metrics, last if known is None else max(last, known.last_at), usual)
    return tuple(sorted(found.values(), key=lambda one: -one.last_at)), old

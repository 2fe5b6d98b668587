"""What people and channels did with the alerts of the demo: told, acknowledged, snoozed, taken as meant."""

from __future__ import annotations

from datetime import timedelta

from assay.alert.evaluate import act
from assay.alert.records import Trigger, record_of
from assay.clock import Clock
from assay.demo.scene import chance
from assay.errors import UsageError
from assay.series.repository import SeriesStore
from assay.store.alerts import AlertFilter, Alerts
from assay.store.notices import Notices
from assay.store.series_file import FilePoint
from assay.store.store import Store

_LOST = "the chat answered 503: try again later"
# What becomes of the alerts that are open at the end, the newest first.
_DEALT_WITH: tuple[tuple[Trigger, str, str], ...] = (
    ("acknowledge", "alice", "the tokenizer is called twice: a fix is on its way"),
    ("snooze", "bob", "after the release"),
    ("expect", "carol", "the filter has to be applied twice, since rights may differ"),
)
_IMPORTED = "demo nightly build"


def tell_channels(store: Store, clock: Clock) -> None:
    """Let every channel take what waits for it; now and then one fails at first."""
    notices = Notices(store.engine, clock)
    for channel in notices.due():
        while (taken := notices.take(channel)) is not None:
            notices.sent(taken, _LOST if taken.id % 9 == 0 else "")


def deal_with(store: Store, clock: Clock) -> int:
    """Do with some open alerts what people do; return how many were dealt with."""
    alerts = [record_of(one) for one in Alerts(store.engine).page(AlertFilter(states=("open",)), limit=50).items]
    done = 0
    for (what, by, why), alert in zip(_DEALT_WITH, alerts[1:], strict=False):
        until = (clock.utc() + timedelta(days=3)).timestamp() if what == "snooze" else None
        try:
            act(store, alert.id, what, by=by, why=why, until=until, clock=clock)
        except UsageError:  # one that has no level to stay at cannot be expected
            act(store, alert.id, "acknowledge", by=by, why=why, clock=clock)
        done += 1
    return done


def import_series(store: Store, clock: Clock, days: int, seed: int) -> None:
    """Points that another tool would have written down, day after day: they are no results of ours."""
    known = SeriesStore(store, clock)
    draw = chance(seed, _IMPORTED)
    now = clock.utc()
    points = []
    for day in range(days):
        level = 14.2 * (1.08 if day > 0.7 * days else 1.0)
        at = (now - timedelta(days=days - day)).timestamp()
        value = float(level * (1 + 0.03 * draw.normal()))
        points.append(FilePoint(f"{_IMPORTED}, minutes", at, value, "lower", "min"))
    known.check(known.take(points).series)

"""The picture of a message: looked up once, before the first try, so that every try says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from assay.alert.message.told import Told, pictured
from assay.alert.picture.drawing import Drawing, drawing_of
from assay.alert.records import Member
from assay.report.numbers import name_with_unit
from assay.report.wording import one_line
from assay.store.series_records import Point

Points = Callable[[str], Sequence[Point]]


def prepared(told: Told, points: Points) -> Told:
    """What a notice keeps, with the drawing of the series that it is about."""
    if told.prepared:
        return told
    member = pictured(told.alert)
    drawing = None if member is None else _drawing(member, points(member.series))
    return replace(told, drawing=drawing, prepared=True)


def _drawing(member: Member, points: Sequence[Point]) -> Drawing | None:
    # What does not count for the analysis is not drawn as if it did.
    values = [point.value if point.counts else None for point in points]
    errors = [point.standard_error if point.counts else None for point in points]
    days = [datetime.fromtimestamp(point.at, UTC).strftime("%Y-%m-%d") for point in points]
    moved = member.moved
    since = moved.since if moved is not None else None
    change_at = next((index for index, point in enumerate(points) if since is not None and point.at >= since), None)
    metric = name_with_unit(member.metric, member.unit)
    place = member.name.removesuffix(member.metric)
    title = one_line(f"{place}{metric}" if place != member.name else f"{metric}, {place}")
    return drawing_of(
        title,
        values,
        errors,
        days,
        change_at=change_at,
        before=moved.before if moved else None,
        after=moved.after if moved else None,
    )

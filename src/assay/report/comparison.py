"""Two results side by side on a terminal: better, worse, or cannot tell and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.analyse.records import Comparison, Interval
from assay.report.grid import Column, lay_out
from assay.report.numbers import NOTHING, decimals_for, name_with_unit, show, show_percent
from assay.report.wording import one_line


def render_comparison(
    groups: Mapping[str, Sequence[Comparison]],
    *,
    a: str = "a",
    b: str = "b",
    notes: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Write comparisons as a table, one line per job and metric, with the verdict's reason at its end.

    Args:
        notes: sentences for below the table, such as how the pairs were run.
    """
    rows = [comparison_cells(label, one) for label, comparisons in groups.items() for one in comparisons]
    columns = _columns(one_line(a), one_line(b))
    first = 0 if any(row[0] for row in rows) else 1  # a job column only where jobs have names
    verdicts = [row[-1] for row in rows]
    room = (width or 100) - len("  cannot tell")
    lines = lay_out(columns[first:], [row[first:-1] for row in rows], room)
    padded = max((len(line) for line in lines), default=0)
    table = [f"{line:<{padded}}  {end}" for line, end in zip(lines, ["verdict", *verdicts], strict=True)]
    return "\n".join([*table, *map(one_line, notes)])


def _columns(a: str, b: str) -> tuple[Column, ...]:
    return (
        Column("job", flexible=True),
        Column("metric", flexible=True),
        Column(a, right=True, flexible=True),
        Column(b, right=True, flexible=True),
        Column("change", right=True),
    )


def comparison_cells(label: str, one: Comparison) -> tuple[str, ...]:
    """One line of a table: job, metric, both sides, change, verdict."""
    metric = one_line(name_with_unit(one.metric, one.unit))
    places = decimals_together((one.a, one.a_interval), (one.b, one.b_interval))
    sides = (show_side(one.a, one.a_interval, places), show_side(one.b, one.b_interval, places))
    return (one_line(label), metric, *sides, show_change(one), verdict_with_reason(one))


def decimals_together(*sides: tuple[float, Interval | None]) -> int:
    """The same decimals for values that stand beside each other, so that they can be compared by eye."""
    known = [decimals_for(value, interval.half_width) for value, interval in sides if interval]
    return max(known) if known else max(decimals_for(value, None) for value, _ in sides)


def show_side(value: float, interval: Interval | None, places: int) -> str:
    """Write the number of one side with its doubt: `6.74 ±0.18`."""
    return f"{show(value, places)} ±{show(interval.half_width, places) if interval else '?'}"


def show_change(one: Comparison) -> str:
    """Write the relative change with its interval: `+4.2 % [+2.1, +6.4]`."""
    if not one.a:
        return NOTHING
    return show_relative((one.b - one.a) / abs(one.a), one.change)


def show_relative(change: float, interval: Interval | None) -> str:
    """Write a relative change with its interval: `+4.2 % [+2.1, +6.4]`."""
    centre = show_percent(change, signed=True)
    return f"{centre} [{interval.low * 100:+.1f}, {interval.high * 100:+.1f}]" if interval else f"{centre} [unknown]"


def verdict_with_reason(one: Comparison) -> str:
    """The answer in words; what cannot be told always says why."""
    if one.answer != "cannot tell" and not one.because:
        return one.answer
    return one_line(f"{one.answer}: {'; '.join(one.because) or 'no reason was recorded'}")

"""Series and findings as text: one line each in a list, and all that is known of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import JsonValue

from assay.analyse.series import Finding, SeriesReport
from assay.analyse.series.causes import shown
from assay.analyse.text import count, percent, quantity
from assay.report.sheet import GridColumn, lay_out, text_table
from assay.report.wording import job_label, one_line
from assay.series.repository import KnownFinding
from assay.store.series import Point, SeriesRecord

_BARS = "▁▂▃▄▅▆▇█"
_NO_VALUE = "·"
_PICTURE = 72
_SHOWN_POINTS = 10
_NEARLY_ALL = 0.999
_HARDLY_EVER = 1e-4


def moment(at: float) -> str:
    """A moment as people write it, in UTC; a time that is only counted as its number."""
    if abs(at) < 86_400 * 365:  # counted nights and builds, not the first year after 1970
        return f"{at:g}"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def series_name(record: SeriesRecord) -> str:
    """A series in words: `latency_ms of image classifier, batch=8, team=vision`."""
    if record.origin == "import":
        return one_line(record.benchmark)
    parts = [
        f"{record.metric} of {record.benchmark}",
        job_label(record.point, {}) if record.point else "",
        " ".join(f"{name}={value}" for name, value in record.labels.items()),
    ]
    return one_line(", ".join(part for part in parts if part))


def machine_words(record: SeriesRecord) -> str:
    kind = record.machine
    cores, memory, gpus = kind.get("cores"), kind.get("memory_gib"), kind.get("gpus")
    held = kind.get("limit_cpus")
    parts = (
        kind.get("processor"),
        f"{cores} cores" if cores else None,
        f"held to {held:g} of them" if isinstance(held, int | float) else None,
        f"{memory:g} GiB" if isinstance(memory, int | float) else None,
        f"{f'{gpus} × ' if isinstance(gpus, int) and gpus > 1 else ''}{kind['gpu']}" if kind.get("gpu") else None,
        kind.get("os"),
    )
    return one_line(" · ".join(str(part) for part in parts if part))


def change_words(finding: Finding, unit: str) -> str:
    """How much a series changed, with its interval: `+5.2 % [+4.1 %, +6.3 %]`."""
    if finding.change is None or finding.interval is None:
        ends = finding.difference_interval
        return f"{_signed(finding.difference, unit)} [{_signed(ends.low, unit)}, {_signed(ends.high, unit)}]"
    low, high = (percent(end, signed=True) for end in (finding.interval.low, finding.interval.high))
    return f"{percent(finding.change, signed=True)} [{low}, {high}]"


def finding_sentence(known: KnownFinding) -> str:
    """A finding in one line, for the output of a run."""
    finding = known.finding
    summary = f"{finding.label}: {series_name(known.series)} {change_words(finding, known.series.unit)}"
    return one_line(f"{summary} since {moment(known.first_bad.at)}; {known.triage.cause}; `assay explain {known.id}`")


def render_series_list(items: Sequence[SeriesRecord], width: int) -> str:
    """Series as lines of a table."""
    columns = (
        GridColumn("series"),
        GridColumn("points", right=True),
        GridColumn("newest"),
        GridColumn("looks"),
        GridColumn("±", right=True, expendable=1),
        GridColumn("findings", right=True),
        GridColumn("name", flexible=True),
    )
    rows = [
        (
            series.id,
            f"{series.points:,}",
            moment(series.newest) if series.newest is not None else "",
            str(series.report.get("kind") or "not checked"),
            _share(series.report.get("relative_spread")),
            str(series.report.get("findings") or ""),
            series_name(series),
        )
        for series in items
    ]
    return "\n".join(lay_out(columns, rows, width))


def render_series(record: SeriesRecord, points: Sequence[Point], findings: Sequence[KnownFinding], width: int) -> str:
    """All that is known of a series: what it is, a small picture, its findings, its newest points."""
    lines = [f"{series_name(record)}", f"series   {record.id}"]
    lines += [f"machine  {machine_words(record)}"] if record.machine else []
    lines += [f"better   {record.better or 'not stated'}", f"looks    {_check_text(record)}", ""]
    lines += [_picture(points), ""]
    if findings:
        lines += [*findings_table(findings, width), ""]
    head = ("time", "value", "±", "verdict", "job")
    rows = [
        (
            moment(point.at),
            quantity(point.value, record.unit) if point.value is not None else "none",
            quantity(point.standard_error, "") if point.standard_error is not None else "",
            point.verdict,
            point.job or "",
        )
        for point in points[-_SHOWN_POINTS:]
    ]
    return "\n".join([*lines, *text_table(head, rows, width, right=(1, 2), flexible=(4,))])


def findings_table(findings: Sequence[KnownFinding], width: int, *, named: bool = False) -> list[str]:
    last = GridColumn("series", flexible=True) if named else GridColumn("what differs", flexible=True, expendable=1)
    columns = (
        GridColumn("finding"),
        GridColumn("since"),
        GridColumn("change"),
        GridColumn("answer"),
        GridColumn("cause"),
        GridColumn("state"),
        last,
    )
    rows = [
        (
            change.id,
            moment(change.first_bad.at),
            change_words(change.finding, change.series.unit),
            change.finding.label,
            change.triage.cause,
            change.state,
            series_name(change.series) if named else ", ".join(each.name for each in change.triage.differs),
        )
        for change in findings
    ]
    return lay_out(columns, rows, width)


def render_finding(known: KnownFinding, width: int) -> str:
    """All that is known of a finding: what changed, how sure that is, why, and what differs."""
    finding, unit = known.finding, known.series.unit
    drift = finding.kind == "drift"
    word = "drifted" if drift else "changed"
    rare = "less than 0.01 %" if finding.chance < _HARDLY_EVER else percent(finding.chance)
    lines = [
        f"{finding.label}: {series_name(known.series)} {word} by {change_words(finding, unit)}",
        *[f"  {reason}" for reason in finding.because],
        "",
        f"finding    {known.id}, {known.state}, found {moment(known.found_at)}",
        f"series     {known.series.id}",
        *([f"machine    {machine_words(known.series)}"] if known.series.machine else []),
        f"before     {quantity(finding.before, unit)}",
        f"after      {quantity(finding.after, unit)}",
        f"sure       {_sure(finding)}; chance alone shows as much in {rare} of series",
        f"last good  {_point(known.last_good, unit)}",
        f"first bad  {_point(known.first_bad, unit)}",
        f"place      {_place(finding)}",
        "",
        f"cause      {known.triage.cause}",
        *[f"  {reason}" for reason in known.triage.because],
        "",
    ]
    return "\n".join([*lines, *_differences(known, width)])


def render_check(reports: Sequence[SeriesReport], units: dict[str, str], width: int) -> str:
    """What a check of a file found: one line per finding, and how many series have none."""
    head = ("series", "at", "since", "change", "probability", "answer", "kind")
    rows = [
        (
            report.name,
            str(finding.index),
            finding.first_bad_label or "",
            change_words(finding, units.get(report.name, "")),
            _sure(finding),
            finding.label,
            finding.kind,
        )
        for report in reports
        for finding in report.findings
    ]
    quiet = sum(not report.findings for report in reports)
    short = sum(report.kind == "too short" for report in reports)
    summary = f"{count(len(rows), 'finding')} in {len(reports) - quiet:,} of {len(reports):,} series"
    summary += f"; {short:,} of them too short to tell" if short else ""
    table = [*text_table(head, rows, width, right=(1, 4), flexible=(0,)), ""] if rows else []
    return "\n".join([*table, summary])


def _differences(known: KnownFinding, width: int) -> list[str]:
    if not known.triage.differs:
        return ["nothing that is recorded differs between the points before and after"]
    head = ("differs", "before", "after", "changed elsewhere")
    rows = [
        (
            difference.name,
            one_line(shown(difference.before)),
            one_line(shown(difference.after)),
            str(difference.elsewhere),
        )
        for difference in known.triage.differs
    ]
    return text_table(head, rows, width, right=(3,), flexible=(1, 2))


def _sure(finding: Finding) -> str:
    return "> 99.9 %" if finding.probability > _NEARLY_ALL else percent(finding.probability)


def _place(finding: Finding) -> str:
    first, last = finding.range
    if finding.kind == "drift":
        return f"point {finding.index}; it continued to point {last}"
    return f"point {finding.index}" if first == last else f"point {finding.index}; it may be {first} to {last}"


def _point(point: Point, unit: str) -> str:
    commit = point.context.get("commit")
    parts = [
        moment(point.at),
        quantity(point.value, unit) if point.value is not None else "no value",
        point.job or "",
        f"commit {shown(commit)[:12]}" if isinstance(commit, str) else "",
    ]
    return ", ".join(part for part in parts if part)


def _check_text(record: SeriesRecord) -> str:
    report = record.report
    if not report:
        return "not checked"
    spread, memory = _share(report.get("relative_spread")), report.get("correlation")
    parts = [
        str(report.get("kind")),
        f"spread ±{spread}" if spread else "",
        f"a point hands on {percent(memory)} of its deviation" if isinstance(memory, float) and memory else "",
        f"{report['missing']} points without a value" if report.get("missing") else "",
    ]
    return ", ".join(part for part in parts if part)


def _picture(points: Sequence[Point]) -> str:
    """The newest points as a row of bars; one that does not count is a dot."""
    row = [point.value if point.counts else None for point in points[-_PICTURE:]]
    values = [value for value in row if value is not None]
    if not values:
        return _NO_VALUE * len(row)
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_NO_VALUE if value is None else _BARS[round((value - low) / step)] for value in row)


def _signed(value: float, unit: str) -> str:
    return f"{'+' if value > 0 else ''}{quantity(value, unit)}"


def _share(value: JsonValue) -> str:
    return percent(value) if isinstance(value, int | float) else ""

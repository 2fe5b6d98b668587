"""The tables of the HTML report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.analyse.text import run_name
from assay.metrics import METRICS, base_name
from assay.report.html.chart import Child, Markup, el, join
from assay.report.numbers import (
    NOTHING,
    decimals_of,
    name_with_unit,
    show,
    show_count,
    show_statistics,
    show_tail,
    tail_needs,
)
from assay.report.reasons import reason_titles
from assay.report.sheet import Sheet
from assay.report.telemetry import with_grade
from assay.report.wording import headline_of, headlines, verdict_word

DASH = "–"
_GLYPHS = {"valid": "✓", "suspect": "!", "invalid": "✕", "failed": "✕", "missed": "✕"}
_TAILS = ("p90", "p95", "p99", "p99_9")


def verdict_mark(word: str) -> Markup:
    """A verdict as a word with a sign; its colour only repeats them."""
    glyph = el("span", _GLYPHS.get(word, DASH), aria_hidden="true", class_="glyph")
    return el("span", glyph, word, class_=f"verdict {word.replace(' ', '-')}")


def table(head: Sequence[str], rows: Iterable[Sequence[Child]], *, numeric: Iterable[int] = (), name: str) -> Markup:
    """A table inside its own scrolling container, with the numeric columns aligned."""
    right = set(numeric)
    titles = [el("th", title, class_="n" if i in right else None, scope="col") for i, title in enumerate(head)]
    body = [
        el("tr", *(el("td", cell, class_="n" if i in right else None) for i, cell in enumerate(row))) for row in rows
    ]
    drawn = el("table", el("thead", el("tr", *titles)), el("tbody", *body))
    # Focusable, so that a keyboard can scroll it too.
    return el("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=name)


def summary_table(record: CampaignRecord, labels: Mapping[str, str], anchors: Mapping[str, str]) -> Markup:
    head = ("job", "metric", "median", "interval", "±", "p99", "runs × samples", "verdict", "reasons to doubt")
    rows = [row for job in record.jobs for row in _summary(job, labels[job.job], anchors[job.job])]
    return el("div", table(head, rows, numeric=range(2, 7), name="All jobs"), class_="summary")


def metrics_table(job: MultiRunJobResult) -> Markup:
    """Every metric with its interval and percentiles, and those that are absent with the reason."""
    head = (
        "metric",
        "median",
        "interval",
        "±",
        "mean",
        "std",
        "min",
        "p90",
        "p95",
        "p99",
        "p99.9",
        "max",
        "runs × samples",
        "outliers",
    )
    rows: list[Sequence[Child]] = [_metric(job, name) for name in dict.fromkeys((*headline_of(job), *job.metrics))]
    return table(head, rows, numeric=range(1, len(head)), name="Metrics")


def facts_table(pairs: Iterable[tuple[str, str]]) -> Markup:
    return table(("fact", "value"), [(el("code", path), value) for path, value in pairs], name="Facts")


def tail_cell(stats: MetricStatistics, statistic: str) -> Child:
    """A percentile with its interval, or a dash that says how many samples it would need."""
    value: float | None = getattr(stats, statistic)
    if value is None:
        return el("span", DASH, title=tail_needs(statistic), class_="absent")
    shown, _, interval = show_tail(stats, statistic).partition(" ")
    return el("span", shown, el("div", interval, class_="below")) if interval else shown


def _summary(job: MultiRunJobResult, label: str, anchor: str) -> Iterator[Sequence[Child]]:
    link = el("a", label, href=f"#{anchor}")
    mark = verdict_mark(verdict_word(job))
    doubts = ", ".join(reason_titles(job))
    for name, stats in headlines(job):
        metric = _metric_name(name, name_with_unit(name, stats.unit) if stats else name) if name else DASH
        why = doubts or DASH if name else f"error[{job.error.code}]" if job.error else doubts
        yield (link, metric, *headline_numbers(name, stats), mark, why)


def headline_numbers(name: str, stats: MetricStatistics | None) -> tuple[Child, ...]:
    """Median, interval, spread, tail and count of a headline metric; dashes where there are none."""
    if stats is None:
        return (DASH,) * 5
    shown = show_statistics(stats, name)
    count = show_count(stats.runs, stats.count)
    return (shown.median, shown.interval, shown.spread, tail_cell(stats, "p99"), count)


def _metric(job: MultiRunJobResult, name: str) -> tuple[Child, ...]:
    stats = job.metrics[name]
    shown = show_statistics(stats, name)
    places = decimals_of(stats)
    mean, std, low, high = (
        DASH if v is None else show(v, places) for v in (stats.mean, stats.std, stats.min, stats.max)
    )
    tails = (tail_cell(stats, statistic) for statistic in _TAILS)
    count = show_count(stats.runs, stats.count)
    named = _metric_name(name, with_grade(name, name_with_unit(name, stats.unit), job))
    head = (named, shown.median, shown.interval, shown.spread)
    return (*head, mean, std, low, *tails, high, count, _outliers(stats))


def _outliers(stats: MetricStatistics) -> Child:
    if not stats.outlier_count:
        return "0"
    worst = [
        f"{run_name(o.run)}{f' sample {o.sample}' if o.sample is not None else ''}: {show(o.value)}"
        for o in stats.outliers
    ]
    return el("span", f"{stats.outlier_count:,}", title="; ".join(worst) or None)


def _metric_name(name: str, shown: str) -> Markup:
    metric = METRICS.get(base_name(name))
    return el("span", shown, title=metric.meaning if metric else None)


def linked_table(
    sheet: Sheet | None, record: CampaignRecord, labels: Mapping[str, str], anchors: Mapping[str, str]
) -> Markup | None:
    """A table whose rows are jobs, under its title, each job a link to its section."""
    if sheet is None:
        return None
    hrefs = {labels[job.job]: f"#{anchors[job.job]}" for job in record.jobs}
    links = {(place, 0): el("a", row[0], href=hrefs[row[0]]) for place, row in enumerate(sheet.rows)}
    return join((el("h3", sheet.title), sheet_table(sheet, links)))


def sheet_table(sheet: Sheet, cells: Mapping[tuple[int, int], Child] = MappingProxyType({})) -> Markup:
    """A small table with its notes; `cells` stand in place of the text at their row and column, such as links."""
    numeric = [place for place in range(len(sheet.head)) if place not in sheet.words]
    rows = [
        [cells.get((place, column)) or _cell(text, column == sheet.verdict) for column, text in enumerate(row)]
        for place, row in enumerate(sheet.rows)
    ]
    return join((table(sheet.head, rows, numeric=numeric, name=sheet.title), sentences(sheet.notes)))


def _cell(text: str, is_verdict: bool) -> Child:
    if is_verdict:
        return verdict_mark(text)
    return DASH if text == NOTHING else text


def sentences(lines: Sequence[str]) -> Markup | None:
    if len(lines) > 1:
        return el("ul", *(el("li", line) for line in lines), class_="quiet")
    return el("p", lines[0], class_="quiet") if lines else None

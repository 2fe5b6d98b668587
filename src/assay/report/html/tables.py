"""The tables of the HTML report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.metrics import METRICS, base_name
from assay.report.device import device_sheet
from assay.report.html.chart import Child, Markup, el, join
from assay.report.machine import fitness_sheet, monitoring_sheet
from assay.report.numbers import (
    NOTHING,
    decimals_of,
    name_with_unit,
    show,
    show_count,
    show_percent,
    show_statistics,
    tail_needs,
)
from assay.report.served import (
    BUCKETS_NOTE,
    ServerStatistic,
    errors_of,
    finish_reasons_of,
    search_sentences,
    server_view_of,
    token_facts_of,
)
from assay.report.sheet import Sheet
from assay.report.telemetry import (
    energy_sentence,
    energy_sheet,
    foreign_sentences,
    grade_of,
    price_sentence,
    seen_sheet,
    throttling_sentences,
    with_grade,
)
from assay.report.wording import failed, headline_of, headlines, others_share, verdict_word
from assay.run.records import SingleRunResult
from assay.units import show_seconds

DASH = "–"
_PHASES = ("load", "warmup", "measure")
_GLYPHS = {"valid": "✓", "suspect": "!", "invalid": "✕", "failed": "✕"}
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


def runs_table(job: MultiRunJobResult) -> Markup:
    """One line per run: how long its phases took, what it ran on, and how it ended."""
    names = [name for name in headline_of(job) if job.metrics[name].run_values][:3] if job.state == "done" else []
    head = (
        "run",
        "start",
        "took",
        "load",
        "warm-up",
        "measure",
        *names,
        "samples",
        "device used",
        "other programs",
        "outcome",
    )
    rows = [_run(run, job, names) for run in job.runs]
    return table(head, rows, numeric=[0, *range(2, 7 + len(names))], name="Runs")


def answers_tables(job: MultiRunJobResult) -> list[tuple[str, Markup]]:
    """What came back, apart from numbers of time: errors, ends of answers, counts of tokens, the server's own view."""
    errors, ends, tokens, views = errors_of(job), finish_reasons_of(job), token_facts_of(job), server_view_of(job)
    sections = []
    if errors:
        rows = [(error.kind, f"{error.count:,}", error.first or DASH) for error in errors]
        head = ("kind", "requests", "the first one")
        sections.append(("Failed requests by kind", table(head, rows, numeric=[1], name="Failed requests")))
    if ends:
        counts = [(end.kind, f"{end.count:,}") for end in ends]
        sections.append(
            ("Why answers ended", table(("reason", "answers"), counts, numeric=[1], name="Ends of answers"))
        )
    if tokens:
        sections.append(("How tokens were counted", table(("what", "found"), tokens, name="Tokens")))
    if views:
        sections.append(("The server's own view", _views(views)))
    if sentences := search_sentences(job):
        sections.append(("The search", el("ul", *(el("li", sentence) for sentence in sentences))))
    return sections


def _views(views: Sequence[ServerStatistic]) -> Markup:
    rows = [
        (view.statistic, DASH if view.ours is None else show(view.ours), view.told, _difference(view), view.source)
        for view in views
    ]
    note = "Ours begins when a request was due and includes the network; the server's begins when it saw the request."
    if any(view.between for view in views):
        note = f"{note} {BUCKETS_NOTE}"
    head = ("statistic", "ours", "the server's", "difference", "read from")
    return join((table(head, rows, numeric=(1, 2, 3), name="Server's view"), el("p", note, class_="quiet")))


def _difference(one: ServerStatistic) -> str:
    if one.ours is None or not one.theirs or one.between is not None:
        return DASH
    return show_percent(one.ours / one.theirs - 1, signed=True)


def facts_table(pairs: Iterable[tuple[str, str]], name: str) -> Markup:
    return table(("fact", "value"), [(el("code", path), value) for path, value in pairs], name=name)


def tail_cell(stats: MetricStatistics, statistic: str) -> Child:
    """A percentile, or a dash that says how many samples it would need."""
    value: float | None = getattr(stats, statistic)
    if value is None:
        return el("span", DASH, title=tail_needs(statistic), class_="absent")
    return show(value, decimals_of(stats))


def _summary(job: MultiRunJobResult, label: str, anchor: str) -> Iterator[Sequence[Child]]:
    link = el("a", label, href=f"#{anchor}")
    mark = verdict_mark(verdict_word(job))
    doubts = ", ".join(check.name for check in failed((*job.checks, *job.gates)))
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
        f"run {o.run}{f' sample {o.sample}' if o.sample is not None else ''}: {show(o.value)}" for o in stats.outliers
    ]
    return el("span", f"{stats.outlier_count:,}", title="; ".join(worst) or None)


def _metric_name(name: str, shown: str) -> Markup:
    metric = METRICS.get(base_name(name))
    return el("span", shown, title=metric.meaning if metric else None)


def _run(run: SingleRunResult, job: MultiRunJobResult, names: Iterable[str]) -> tuple[Child, ...]:
    phases = (DASH if (took := run.phases.get(name)) is None else show_seconds(took) for name in _PHASES)
    medians = (
        show(stats.run_values[run.run_id], decimals_of(stats)) if run.run_id in stats.run_values else DASH
        for stats in (job.metrics[name] for name in names)
    )
    samples = max(run.sample_counts.values(), default=0)
    outcome = verdict_mark("failed") if run.error else "ok"
    return (
        run.run_id,
        "cold" if run.is_cold_start else "fresh",
        show_seconds(run.duration_seconds),
        *phases,
        *medians,
        f"{samples:,}" if samples else DASH,
        run.device.used if run.device else DASH,
        others_share(run) or DASH,
        join((outcome, f" {run.error.code}" if run.error else None)),
    )


def energy_line(job: MultiRunJobResult) -> Markup | None:
    """Energy with its grade, or why there is none, and the machine's price; None where nobody looked."""
    energy, price = energy_sentence(job), price_sentence(job)
    parts = [
        el("strong", "Energy: ") if grade_of(job) else None,
        energy[:1].upper() + energy[1:],
        ". " if energy and price else None,
        join((el("strong", "Price: "), price)) if price else None,
    ]
    return el("p", *parts, class_="quiet") if energy or price else None


def hardware_tables(job: MultiRunJobResult) -> list[tuple[str, Markup, bool]]:
    """Title and content of each part that the job has something for, and whether it is shown at once."""
    sentences = (*throttling_sentences(job), *foreign_sentences(job))
    seen = seen_sheet(job)
    watched = join((_sentences(sentences), sheet_table(seen) if seen else None)) if sentences or seen else None
    device, energy, state = device_sheet(job), energy_sheet(job), fitness_sheet(job)
    scraped = monitoring_sheet(job)
    parts = (
        ("Tests of the device", sheet_table(device) if device else None, True),
        ("Energy", sheet_table(energy) if energy else None, True),
        ("Seen from the side", watched, False),  # the picture says most of it
        ("Nodes and services", sheet_table(scraped) if scraped else None, True),
        ("The machine before and after", sheet_table(state) if state else None, True),
    )
    return [(title, content, shown) for title, content, shown in parts if content is not None]


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
    return join((table(sheet.head, rows, numeric=numeric, name=sheet.title), _sentences(sheet.notes)))


def _cell(text: str, is_verdict: bool) -> Child:
    if is_verdict:
        return verdict_mark(text)
    return DASH if text == NOTHING else text


def _sentences(told: tuple[str, ...]) -> Markup | None:
    if len(told) > 1:
        return el("ul", *(el("li", sentence) for sentence in told), class_="quiet")
    return el("p", told[0], class_="quiet") if told else None

"""`assay series` and `assay explain`: metrics over time, what changed in them, and why."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import SourceOptions, StoreOption, TextFormat, TextFormatOption, Verbs, open_store
from assay.cli.output import say, say_json, terminal_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.store.series_file import SeriesFile

app = Verbs(help="Follow metrics over time: their points, and what changed.")


class FindingChoice(StrEnum):
    """The state of a finding."""

    open = "open"
    expected = "expected"
    gone = "gone"


Series = Annotated[str, typer.Argument(metavar="SERIES", help="Id of the series, or its beginning.")]
Finding = Annotated[str, typer.Argument(metavar="FINDING", help="Id of the finding, or its beginning.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="CSV or JSON lines with series, time and value.")]


@app.command("list")
def list_(
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only series of this benchmark.")] = "",
    metric: Annotated[str, typer.Option("--metric", help="Only series of this metric.")] = "",
    text: Annotated[str, typer.Option("--text", help="Part of a name, a point or a label.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 100,
    form: TextFormatOption = TextFormat.text,
    *,
    options: SourceOptions,
) -> None:
    """List series by benchmark and metric."""
    from assay.store.series import SeriesFilter

    with options.open() as source:
        series = tuple(source.series(SeriesFilter(benchmark, metric, text), limit))
    if form is TextFormat.json:
        say_json(_plain(series))
        return
    from assay.report.series import render_series_list

    empty = "no series yet; each result of `assay run` makes points"
    say(render_series_list(series, terminal_width()) if series else empty)


@app.command("show")
def show(series: Series, form: TextFormatOption = TextFormat.text, *, options: SourceOptions) -> None:
    """Show a series: its newest points, how it looks, and what changed in it."""
    with options.open() as source:
        record = source.series_record(series)
        points, findings = source.points(record.id), tuple(source.findings(series=record.id))
    if form is TextFormat.json:
        say_json({"series": _plain(record), "points": _plain(tuple(points)), "findings": _plain(findings)})
        return
    from assay.report.series import render_series

    say(render_series(record, points, findings, terminal_width()))


@app.command("import")
def import_(file: File, form: TextFormatOption = TextFormat.text, *, options: SourceOptions) -> None:
    """Take points from a file, as often as you like: those that are there already stay as they are."""
    from assay.analyse.text import count
    from assay.store.series_file import read_series_file

    read = read_series_file(file)
    with options.open() as source:
        imported = source.import_points(read.series())
    if form is TextFormat.json:
        say_json({**asdict(imported), "problems": _problems(read)})
    else:
        series = f"{len(imported.series):,} series"
        say(f"{count(imported.added, 'point')} added, {imported.known:,} were there, in {series}")
        say(f"{count(len(imported.findings), 'finding')} new or changed{_some(imported.findings)}")
    _end(read, failed=False)


@app.command("check")
def check(
    file: File,
    form: TextFormatOption = TextFormat.text,
    fail_on_worse: Annotated[bool, typer.Option("--fail-on-worse", help="Exit code 1 if anything is worse.")] = False,
) -> None:
    """Find what changed in the series of a file; no store is needed, nothing is kept."""
    import numpy as np

    from assay.analyse.series import Series, detect, discoveries
    from assay.store.series_file import read_series_file

    read = read_series_file(file)
    reports, units = [], {}
    for name, points in read.series().items():
        values = np.array([np.nan if point.value is None else point.value for point in points], dtype=np.float64)
        better = next((point.better for point in reversed(points) if point.better), None)
        units[name] = next((point.unit for point in reversed(points) if point.unit), "")
        reports.append(detect(Series(values, better, labels=tuple(point.label for point in points), name=name)))
    discovered = discoveries(reports).reports if reports else ()
    if form is TextFormat.json:
        say_json(
            {
                "schema": "assay.series-check/1",
                "series": [series_report.record() for series_report in discovered],
                "problems": _problems(read),
            }
        )
    else:
        from assay.report.series import render_check

        say(render_check(discovered, units, terminal_width()))
    worse = any(finding.answer == "worse" for report in discovered for finding in report.findings)
    _end(read, failed=fail_on_worse and worse)


@app.command("findings")
def findings(
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only in series of this benchmark.")] = "",
    state: Annotated[
        FindingChoice | None, typer.Option("--state", help="Only those in this state.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    form: TextFormatOption = TextFormat.text,
    *,
    options: SourceOptions,
) -> None:
    """List what was found in all series, the newest first."""
    with options.open() as source:
        newest = tuple(source.findings(benchmark=benchmark, state=state.value if state else "", limit=limit))
    if form is TextFormat.json:
        say_json(_plain(newest))
        return
    from assay.report.series import findings_table

    say("\n".join(findings_table(newest, terminal_width(), named=True)) if newest else "nothing was found yet")


@app.command("expect")
def expect(finding: Finding, *, options: SourceOptions) -> None:
    """Mark a change as expected: its series is judged from the new level."""
    with options.open() as source:
        name = source.expect(finding).id
    say(f"{name}: expected; the series is judged from the new level")


@app.command("collect")
def collect(
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only results of this benchmark.")] = "",
    store: StoreOption = None,
) -> None:
    """Take all results of the store into their series: those that were measured before there were series, too."""
    from assay.alert.ingest import collect as collect_results
    from assay.analyse.text import count

    with open_store(store) as opened:
        collected = collect_results(opened, benchmark=benchmark)
    changed = [finding.id for finding in collected.findings]
    results = f"{count(collected.results, 'result')} in {len(collected.series):,} series"
    say(f"{results}; {count(len(changed), 'finding')} new or changed{_some(changed)}")


def explain(finding: Finding, form: TextFormatOption = TextFormat.text, *, options: SourceOptions) -> None:
    """Explain a finding: what changed, how sure that is, why, and all that differs."""
    with options.open() as source:
        explained = source.finding(finding)
    if form is TextFormat.json:
        from assay.documents import to_json

        say(to_json(explained, indent=2))
        return
    from assay.report.series import render_finding

    say(render_finding(explained, terminal_width()))


def _plain(records: object) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    from assay.documents import to_plain

    return [to_plain(record) for record in records] if isinstance(records, tuple) else to_plain(records)


def _some(findings: Sequence[str]) -> str:
    from assay.analyse.text import listed

    return f": {listed(findings)}" if findings else ""


def _problems(read: SeriesFile) -> list[dict[str, str]]:
    return [{"at": problem.at, "message": problem.message} for problem in read.problems]


def _end(read: SeriesFile, *, failed: bool) -> None:
    """Name the lines that could not be used; the exit code is 1 for a failure, 2 for such lines."""
    for problem in read.problems:
        sys.stderr.write(f"{problem}\n")
    if read.problems:
        from assay.analyse.text import count

        sys.stderr.write(f"{count(len(read.problems), 'line')} could not be used; the others were\n")
    raise typer.Exit(1 if failed else 2 if read.problems else 0)

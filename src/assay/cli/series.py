"""`assay series`: metrics over time, and what changed in them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import (
    SourceOptions,
    StoreOption,
    Verbs,
    open_store,
)
from assay.cli.output import say, say_json, terminal_width

if TYPE_CHECKING:
    from assay.place.fleet.client import FleetClient
    from assay.series.repository import KnownFinding
    from assay.store.series_file import SeriesFile
    from assay.store.series_records import Point, SeriesFilter, SeriesRecord

app = Verbs(help="Follow metrics over time: their points, and what changed.")

_SENT_AT_ONCE = 2000
# A server checks the series of thousands of points before it answers.
_PATIENCE_S = 300.0


class SeriesFormat(StrEnum):
    """How series are printed."""

    text = "text"
    json = "json"


class FindingChoice(StrEnum):
    """What became of a finding."""

    open = "open"
    expected = "expected"
    gone = "gone"


FormOption = Annotated[SeriesFormat, typer.Option("--format", "-f", help="How to print it.")]
Series = Annotated[str, typer.Argument(metavar="SERIES", help="Id of the series, or its beginning.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="CSV or JSON lines with series, time and value.")]


@app.command("list")
def list_(
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only series of this benchmark.")] = "",
    metric: Annotated[str, typer.Option("--metric", help="Only series of this metric.")] = "",
    text: Annotated[str, typer.Option("--text", help="Part of a name, a point or a label.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 100,
    form: FormOption = SeriesFormat.text,
    *,
    source: SourceOptions,
) -> None:
    """List series by benchmark and metric."""
    from assay.store.series_records import SeriesFilter

    which = SeriesFilter(benchmark, metric, text)
    client = server.connect() if server else None
    items = _listed_here(store, which, limit) if client is None else _listed_there(client, which, limit)
    if form is SeriesFormat.json:
        say_json(_plain(items))
        return
    from assay.report.series import render_series_list

    empty = "no series yet; each result of `assay run` makes points"
    say(render_series_list(items, terminal_width()) if items else empty)


@app.command("show")
def show(
    series: Series,
    form: FormOption = SeriesFormat.text,
    *,
    source: SourceOptions,
) -> None:
    """Show a series: its newest points, how it looks, and what changed in it."""
    record, points, findings = _shown_there(server.connect(), series) if server else _shown_here(store, series)
    if form is SeriesFormat.json:
        say_json({"series": _plain(record), "points": _plain(points), "findings": _plain(findings)})
        return
    from assay.report.series import render_series

    say(render_series(record, points, findings, terminal_width()))


@app.command("import")
def import_(
    file: File,
    form: FormOption = SeriesFormat.text,
    *,
    source: SourceOptions,
) -> None:
    """Take points from a file, as often as you like: those that are there already stay as they are."""
    from assay.store.series_file import read_series_file

    read = read_series_file(file)
    answer = _taken_there(server.connect(), read) if server else _taken_here(store, read)
    if form is SeriesFormat.json:
        say_json({**answer, "problems": _problems(read)})
    else:
        from assay.analyse.words import count

        series = f"{len(answer['series']):,} series"
        say(f"{count(answer['added'], 'point')} added, {answer['known']:,} were there, in {series}")
        say(f"{count(len(answer['findings']), 'finding')} new or changed{_some(answer['findings'])}")
    _end(read, failed=False)


@app.command("check")
def check(
    file: File,
    form: FormOption = SeriesFormat.text,
    fail_on_worse: Annotated[bool, typer.Option("--fail-on-worse", help="Exit code 1 if anything is worse.")] = False,
) -> None:
    """Find what changed in the series of a file; no store is needed, nothing is kept."""
    import numpy as np

    from assay.analyse.series import Series, detect, discoveries
    from assay.store.series_file import read_series_file

    read = read_series_file(file)
    reports, units = [], {}
    for name, points in read.series().items():
        values = np.array([np.nan if one.value is None else one.value for one in points], dtype=np.float64)
        better = next((one.better for one in reversed(points) if one.better), None)
        units[name] = next((one.unit for one in reversed(points) if one.unit), "")
        reports.append(detect(Series(values, better, labels=tuple(one.label for one in points), name=name)))
    found = discoveries(reports).reports if reports else ()
    if form is SeriesFormat.json:
        say_json(
            {"schema": "assay.series-check/1", "series": [one.record() for one in found], "problems": _problems(read)}
        )
    else:
        from assay.report.series import render_check

        say(render_check(found, units, terminal_width()))
    worse = any(one.answer == "worse" for report in found for one in report.findings)
    _end(read, failed=fail_on_worse and worse)


@app.command("findings")
def findings(
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only in series of this benchmark.")] = "",
    state: Annotated[
        FindingChoice | None, typer.Option("--state", help="Only those in this state.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    form: FormOption = SeriesFormat.text,
    *,
    source: SourceOptions,
) -> None:
    """List what was found in all series, the newest first."""
    only = state.value if state else ""
    if server:
        from assay.documents import adapter
        from assay.series.repository import KnownFinding

        asked = {name: value for name, value in (("benchmark", benchmark), ("state", only)) if value}
        told = server.connect().get("/findings", {**asked, "limit": limit})["items"]
        found = adapter(tuple[KnownFinding, ...]).validate_python(told)
    else:
        from assay.series.repository import SeriesStore

        kept = open_store(store)
        try:
            found = SeriesStore(kept).findings(benchmark=benchmark, state=only, limit=limit)
        finally:
            kept.close()
    if form is SeriesFormat.json:
        say_json(_plain(found))
        return
    from assay.report.series import findings_table

    say("\n".join(findings_table(found, terminal_width(), named=True)) if found else "nothing was found yet")


@app.command("expect")
def expect(
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="Id of the finding, or its beginning.")],
    *,
    source: SourceOptions,
) -> None:
    """Take a change as meant: its series is judged anew from there."""
    if server:
        name = str(server.connect().post(f"/findings/{finding}/expect")["id"])
    else:
        from assay.alert.ingest import expect as expect_finding

        kept = open_store(store)
        try:
            name = expect_finding(kept, finding).id
        finally:
            kept.close()
    say(f"{name}: expected; the series is judged anew from there")


@app.command("collect")
def collect(
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only results of this benchmark.")] = "",
    store: StoreOption = None,
) -> None:
    """Take all results of the store into their series: those that were measured before there were series, too."""
    from assay.alert.ingest import collect as collect_results

    kept = open_store(store)
    try:
        found = collect_results(kept, benchmark=benchmark)
    finally:
        kept.close()
    from assay.analyse.words import count

    told = f"{count(found.results, 'result')} in {len(found.series):,} series"
    say(f"{told}; {count(len(found.findings), 'finding')} new or changed{_some([one.id for one in found.findings])}")


def _listed_here(store: Path | None, which: SeriesFilter, limit: int) -> tuple[SeriesRecord, ...]:
    from assay.series.repository import SeriesStore

    kept = open_store(store)
    try:
        return SeriesStore(kept).page(which, limit=limit).items
    finally:
        kept.close()


def _listed_there(client: FleetClient, which: SeriesFilter, limit: int) -> tuple[SeriesRecord, ...]:
    from assay.documents import adapter
    from assay.store.series_records import SeriesRecord

    asked: dict[str, Any] = {"benchmark": which.benchmark, "metric": which.metric, "text": which.text, "limit": limit}
    found = client.get("/series", {name: value for name, value in asked.items() if value})["items"]
    return adapter(tuple[SeriesRecord, ...]).validate_python(found)


def _shown_here(store: Path | None, series: str) -> tuple[SeriesRecord, tuple[Point, ...], tuple[KnownFinding, ...]]:
    from assay.series.repository import SeriesStore

    kept = open_store(store)
    try:
        known = SeriesStore(kept)
        record = known.get(series)
        return record, known.points(record.id), known.findings(series=record.id)
    finally:
        kept.close()


def _shown_there(client: FleetClient, series: str) -> tuple[SeriesRecord, tuple[Point, ...], tuple[KnownFinding, ...]]:
    from assay.documents import adapter
    from assay.series.repository import KnownFinding
    from assay.store.series_records import Point, SeriesRecord

    told = client.get(f"/series/{series}")
    record = adapter(SeriesRecord).validate_python(told["series"])
    points: list[Any] = []
    cursor: str | None = None
    while True:
        asked = {"limit": 500, **({"cursor": cursor} if cursor else {})}
        page = client.get(f"/series/{record.id}/points", asked)
        points += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    findings = adapter(tuple[KnownFinding, ...]).validate_python(told["findings"])
    return record, adapter(tuple[Point, ...]).validate_python(points), findings


def _taken_here(store: Path | None, read: SeriesFile) -> dict[str, Any]:
    from assay.alert.ingest import take

    kept = open_store(store)
    try:
        taken, findings = take(kept, read.points)
    finally:
        kept.close()
    return {
        "series": list(taken.series),
        "added": taken.added,
        "known": taken.known,
        "findings": [one.id for one in findings],
    }


def _taken_there(client: FleetClient, read: SeriesFile) -> dict[str, Any]:
    """Send points in portions; those of one series are sent together as far as they fit."""
    answer: dict[str, Any] = {"series": [], "added": 0, "known": 0, "findings": []}
    points = [one for mine in read.series().values() for one in mine]
    for begin in range(0, len(points), _SENT_AT_ONCE):
        body = {"points": _plain(tuple(points[begin : begin + _SENT_AT_ONCE]))}
        told = client.send("POST", "/series/import", json=body, timeout_s=_PATIENCE_S).json()
        for name in ("series", "findings"):
            answer[name] = list(dict.fromkeys([*answer[name], *told[name]]))
        for name in ("added", "known"):
            answer[name] += told[name]
    return answer


def _plain(records: object) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    from assay.documents import to_plain

    return [to_plain(one) for one in records] if isinstance(records, tuple) else to_plain(records)


def _some(findings: list[str]) -> str:
    from assay.analyse.words import listed

    return f": {listed(findings)}" if findings else ""


def _problems(read: SeriesFile) -> list[dict[str, str]]:
    return [{"at": one.at, "message": one.message} for one in read.problems]


def _end(read: SeriesFile, *, failed: bool) -> None:
    """Name the lines that could not be used; the exit code is 1 for a failure, 2 for such lines."""
    import sys

    for one in read.problems:
        sys.stderr.write(f"{one}\n")
    if read.problems:
        from assay.analyse.words import count

        sys.stderr.write(f"{count(len(read.problems), 'line')} could not be used; the others were\n")
    raise typer.Exit(1 if failed else 2 if read.problems else 0)

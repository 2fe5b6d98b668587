"""`assay report`: a campaign, or everything since a moment, as a file for people."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import (
    Format,
    SourceOptions,
    open_store,
)
from assay.cli.output import rendered, say
from assay.errors import UsageError


class ReportFormat(StrEnum):
    """Formats of a report file."""

    html = "html"
    md = "md"
    csv = "csv"
    json = "json"


def report(
    campaign: Annotated[str | None, typer.Argument(help="Id, its beginning, `latest` or `latest~1`. [latest]")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; `-` prints it.")] = None,
    form: Annotated[ReportFormat, typer.Option("--format", "-f", help="Format of the report.")] = ReportFormat.html,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="A digest of all series instead: since `7d`, `24h` or a date."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="End of the digest; now when left out.")
    ] = None,
    *,
    source: SourceOptions,
) -> None:
    """Write a campaign's report, or with --since a digest of what moved: one self-contained HTML file by default."""
    if since is None:
        if until is not None:
            raise UsageError("--until ends a digest, which --since begins", code="since", try_="give --since too")
        name = campaign or "latest"
        made = _of_server(name, form, server, token_file, ca) if server else _of_store(name, form, store)
        _write(*made, out, form)
        return
    if campaign is not None:
        raise UsageError(
            f"--since tells of all series, not of the campaign {campaign}", code="since", try_="leave out one of them"
        )
    from assay.cli.digest import digest

    digest(since, until, out, form.value, store=store, server=server, token_file=token_file, ca=ca)


def _of_store(campaign: str, form: ReportFormat, store: Path | None) -> tuple[str, str]:
    """The id and the report of a campaign in the store here."""
    from assay.report.reading import read_campaign

    kept = open_store(store)
    try:
        record = read_campaign(kept, kept.find(campaign))
        if form is not ReportFormat.html:
            return record.campaign, rendered(record, Format(form.value))
        from assay.report.html import render_html
        from assay.report.reading import file_reader

        return record.campaign, render_html(record, kept.samples_of, file_reader(kept))
    finally:
        kept.close()


def _of_server(
    campaign: str, form: ReportFormat, server: str, token_file: Path | None, ca: Path | None
) -> tuple[str, str]:
    """The id and the report of a campaign of a server."""
    from assay.engines.fleet.campaign import find, read

    client = server.connect()
    result = read(client, find(client, campaign))
    text = result.to_html() if form is ReportFormat.html else rendered(result.record, Format(form.value))
    return result.record.campaign, text


def _write(campaign: str, text: str, out: Path | None, form: ReportFormat) -> None:
    from assay.store.samples import write_whole

    if out == Path("-"):
        say(text)
        return
    path = out or Path(f"{campaign}.{form.value}")
    write_whole(path, text.encode())
    say(str(path.absolute()))

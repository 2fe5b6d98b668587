"""`assay report`: a campaign, or everything since a moment, as a file for people."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import Format, StoreOption, open_store, rendered, say
from assay.cli.server_options import CaOption, ServerOption, TokenFileOption


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
    store: StoreOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """Write a campaign's report, or with --since a digest of what moved: one self-contained HTML file by default."""
    if since is None:
        _campaign(campaign or "latest", out, form, store, until)
        return
    if campaign is not None:
        from assay.errors import UsageError

        raise UsageError(f"--since tells of all series, not of the campaign {campaign}", code="since",
                         try_="leave out one of them")  # fmt: skip
    from assay.cli.digest import digest

    digest(since, until, out, form.value, store=store, server=server, token_file=token_file, ca=ca)


def _campaign(campaign: str, out: Path | None, form: ReportFormat, store: Path | None, until: str | None) -> None:
    from assay.campaign import read_campaign
    from assay.store.samples import write_whole

    if until is not None:
        from assay.errors import UsageError

        raise UsageError("--until ends a digest, which --since begins", code="since", try_="give --since too")
    kept = open_store(store)
    record = read_campaign(kept, kept.find(campaign))
    if form is ReportFormat.html:
        from assay.report.html import render_html
        from assay.report.reading import file_reader

        text = render_html(record, kept.samples_of, file_reader(kept))
    else:
        text = rendered(record, Format(form.value))
    kept.close()
    if out == Path("-"):
        say(text)
        return
    path = out or Path(f"{record.campaign}.{form.value}")
    write_whole(path, text.encode())
    say(str(path.absolute()))

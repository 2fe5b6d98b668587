"""`assay report`: a campaign as a file for people."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import Format, StoreOption, open_store, rendered, say


class ReportFormat(StrEnum):
    """Formats of a report file."""

    html = "html"
    md = "md"
    csv = "csv"
    json = "json"


def report(
    campaign: Annotated[str, typer.Argument(help="Id, its beginning, `latest` or `latest~1`.")] = "latest",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write.")] = None,
    form: Annotated[ReportFormat, typer.Option("--format", "-f", help="Format of the report.")] = ReportFormat.html,
    store: StoreOption = None,
) -> None:
    """Write a campaign's report: one self-contained HTML file by default."""
    from assay.campaign import read_campaign
    from assay.store.samples import write_whole

    kept = open_store(store)
    record = read_campaign(kept, kept.find(campaign))
    if form is ReportFormat.html:
        from assay.report.html import render_html
        from assay.report.reading import file_reader

        text = render_html(record, kept.samples_of, file_reader(kept))
    else:
        text = rendered(record, Format(form.value))
    kept.close()
    path = out or Path(f"{record.campaign}.{form.value}")
    write_whole(path, text.encode())
    say(str(path.absolute()))

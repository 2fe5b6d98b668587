"""`assay run`: measure a benchmark on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    BenchmarkFile,
    FailOn,
    Format,
    FormatOption,
    SetOption,
    StoreOption,
    exit_code,
    rendered,
    say,
)

if TYPE_CHECKING:
    from assay.campaign import CampaignResult


def run(
    file: BenchmarkFile,
    form: FormatOption = Format.text,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not continue an interrupted campaign.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write CSV, JSON and the HTML report into this folder.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")] = FailOn.invalid,
    settings: SetOption = None,
    store: StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Measure a benchmark on this machine; an interrupted one continues where it stopped."""
    from assay import campaign
    from assay.report.live import view_for
    from assay.spec.override import read_with

    document = read_with(file, settings or ())
    view = view_for(text=form is Format.text, quiet=quiet)
    result = campaign.run(document, store=store, fresh=fresh, view=view)
    say(rendered(result.record, form))
    written = _write(result, out) if out else []
    if form is Format.text:
        for path in written:
            say(f"{path.suffix[1:]:<6}  {path}")
        say(f"store   {result.store}")
        say(f"result  {result.record.campaign}")
    raise typer.Exit(exit_code(result.record, fail_on))


def _write(result: CampaignResult, folder: Path) -> list[Path]:
    from datetime import datetime

    from assay.report.table import results_filename
    from assay.store.samples import write_whole

    created = datetime.fromisoformat(result.record.created_at)
    table = folder / results_filename(result.record.campaign, created)
    contents = {
        table: result.to_csv(),
        table.with_name(f"{result.record.campaign}.json"): result.to_json(),
        table.with_name(f"{result.record.campaign}.html"): result.to_html(),
    }
    for path, text in contents.items():
        write_whole(path, text.encode())
    return list(contents)

"""`assay merge`: what the parts of a load that several machines shared are together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import (
    FailOn,
    Format,
    FormatOption,
    ServerOptions,
    SourceOptions,
)
from assay.cli.output import exit_code, rendered, say
from assay.cli.run import write_reports


def merge(
    campaign: Annotated[str, typer.Argument(help="Id; in a store also its beginning or `latest`.")],
    form: FormatOption = Format.text,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write CSV, JSON and the HTML report into this folder.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")] = FailOn.invalid,
    *,
    options: SourceOptions,
    local: Annotated[bool, typer.Option("--local", help="Read the store, even if ASSAY_SERVER is set.")] = False,
) -> None:
    """Put the samples of machines that shared a load (load.hosts) together, one result per point."""
    from assay.engines.shared_load import merge as merge_parts
    from assay.errors import UsageError
    from assay.report.result import CampaignResult

    with (replace(options, server=ServerOptions()) if local else options).open() as source:
        record = source.record(source.find(campaign))
        found = merge_parts(CampaignResult(record, source.name, source.samples, source.file))
        reports = write_reports(found.beside_parts, out) if found is not None and out else ()
    if found is None:
        raise UsageError(
            f"no load of campaign {record.campaign} was shared by several machines",
            code="nothing-to-merge",
            try_="set load.hosts, and run it on a fleet",
        )
    say(rendered(found.beside_parts.record, form))
    for path in reports:
        if form is Format.text:
            say(f"{path.suffix[1:]:<6}  {path}")
    raise typer.Exit(exit_code(found.alone, fail_on))

"""`assay merge`: what the parts of a load that several machines shared are together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    CaOption,
    FailOn,
    Format,
    FormatOption,
    ServerOption,
    StoreOption,
    TokenFileOption,
    open_store,
)
from assay.cli.output import exit_code, rendered, say
from assay.cli.run import write_reports

if TYPE_CHECKING:
    from assay.report.result import CampaignResult


def merge(
    campaign: Annotated[str, typer.Argument(help="Id; in a store also its beginning or `latest`.")],
    form: FormatOption = Format.text,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write CSV, JSON and the HTML report into this folder.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")] = FailOn.invalid,
    store: StoreOption = None,
    server: ServerOption = None,
    local: Annotated[bool, typer.Option("--local", help="Read the store, even if ASSAY_SERVER is set.")] = False,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """Put the samples of machines that shared a load (load.hosts) together, one result per point."""
    from assay.engines.shared_load import merge as merge_parts
    from assay.errors import UsageError

    if server and not local:
        from assay.engines.fleet.campaign import read

        result = read(server.connect(), campaign)
    else:
        result = _from_store(campaign, store)
    found = merge_parts(result)
    if found is None:
        raise UsageError(
            f"no load of campaign {result.record.campaign} was shared by several machines",
            code="nothing-to-merge",
            try_="set load.hosts, and run it on a fleet",
        )
    say(rendered(found.beside_parts.record, form))
    for path in write_reports(found.beside_parts, out) if out else ():
        if form is Format.text:
            say(f"{path.suffix[1:]:<6}  {path}")
    raise typer.Exit(exit_code(found.alone, fail_on))


def _from_store(campaign: str, folder: Path | None) -> CampaignResult:
    from assay.report.reading import read_campaign
    from assay.report.result import CampaignResult

    kept = open_store(folder)
    record = read_campaign(kept, kept.find(campaign))

    def file(job: str, run: int, name: str) -> bytes | None:
        path = kept.file_of(job, run, name)
        return None if path is None else path.read_bytes()

    return CampaignResult(record, str(kept.folder), kept.samples_of, file)

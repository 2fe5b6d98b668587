"""`assay results`: what was measured, in the store here or on a server."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import Format, FormatOption, SourceOptions, StoreOption, Verbs, open_store
from assay.cli.output import rendered, say, terminal_width, use_colour

app = Verbs(help="List, show, export and remove results.")

Reference = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Id, its beginning, `latest` or `latest~1`.")]


@app.command("list")
def list_(
    form: FormatOption = Format.text,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    *,
    options: SourceOptions,
) -> None:
    """List campaigns, newest first."""
    with options.open() as source:
        campaigns = list(source.campaigns(limit))
    if form is Format.json:
        say(json.dumps([asdict(one) for one in campaigns], indent=2))
        return
    if not campaigns:
        say(f"no results yet in {source.name}\nnext    assay init; assay run bench.yaml")
        return
    from assay.report.sheet import GridColumn, lay_out

    columns = (
        GridColumn("campaign"),
        GridColumn("created"),
        GridColumn("state"),
        GridColumn("jobs", right=True),
        GridColumn("benchmark", flexible=True),
    )
    rows = [
        (one.id, one.created_at[:19], one.state, f"{one.jobs_ended}/{one.jobs}", one.benchmark) for one in campaigns
    ]
    say("\n".join(lay_out(columns, rows, terminal_width())))


@app.command("show")
def show(
    campaign: Reference = "latest",
    form: FormatOption = Format.text,
    job: Annotated[int | None, typer.Option("--job", "-j", help="One job, by its number, in full.")] = None,
    *,
    options: SourceOptions,
) -> None:
    """Show the results of a campaign, or one of its jobs in full."""
    from assay.errors import UsageError
    from assay.report.detail import render_job
    from assay.report.scores import render_scores, score_lines

    with options.open() as source:
        record = source.record(source.find(campaign))
        scores = source.scores(record.jobs) if form is Format.text else {}
    if job is None:
        say(rendered(record, form))
        if scores:
            say(f"\n{render_scores([one for one in record.jobs if one.job in scores], scores, terminal_width())}")
        return
    chosen = next((one for one in record.jobs if one.index == job), None)
    if chosen is None:
        raise UsageError(
            f"campaign {record.campaign} has no job {job}", code="unknown-job", try_=f"use 0 to {len(record.jobs) - 1}"
        )
    if form is Format.text:
        say(render_job(chosen, width=terminal_width(), colour=use_colour()))
        if chosen.job in scores:
            say("\n".join(["", "scores computed later", *score_lines(scores[chosen.job])]))
    else:
        say(rendered(replace(record, jobs=(chosen,)), form))


@app.command("export")
def export(
    campaign: Reference,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")] = Path(),
    *,
    options: SourceOptions,
) -> None:
    """Write the results of a campaign as JSON and CSV, with every sample as Parquet and every file that runs left."""
    from assay.store.artefacts import plain_name
    from assay.store.samples import write_whole

    with options.open() as source:
        record = source.record(source.find(campaign))
        folder = out / record.campaign
        write_whole(folder / "result.json", rendered(record, Format.json).encode())
        write_whole(folder / "result.csv", rendered(record, Format.csv).encode())
        for job in record.jobs:
            for run in job.runs:
                name = f"job-{job.index}-run-{run.run_id}"
                if run.samples:
                    content = source.samples_file(job.job, run.run_id, run.samples)
                    write_whole(folder / "samples" / f"{name}.parquet", content)
                for file, digest in run.files.items():
                    write_whole(folder / "files" / f"{name}-{plain_name(file)}", source.artefact(digest))
    say(str(folder))


@app.command("rm")
def rm(campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN...")], store: StoreOption = None) -> None:
    """Remove campaigns with their samples; of those on a cluster also the shared folder."""
    from assay.engines import drive

    with open_store(store) as opened:
        for reference in [opened.find(one) for one in campaigns]:
            notes = drive.remove(opened, reference)
            say(f"removed {reference}")
            for note in notes:
                say(note)

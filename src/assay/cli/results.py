"""`assay results`: what was measured on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import Format, FormatOption, StoreOption, Verbs, open_store
from assay.cli.output import rendered, say, terminal_width, use_colour

app = Verbs(help="List, show, export and remove results.")

Reference = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Id, its beginning, `latest` or `latest~1`.")]


@app.command("list")
def list_(
    form: FormatOption = Format.text,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    store: StoreOption = None,
) -> None:
    """List campaigns, newest first."""
    kept = open_store(store)
    found = kept.campaigns(limit)
    kept.close()
    if form is Format.json:
        say(json.dumps([asdict(one) for one in found], indent=2))
        return
    if not found:
        say(f"no results yet in {kept.folder}\nnext    assay init; assay run bench.yaml")
        return
    from assay.report.grid import Column, lay_out

    columns = (
        Column("campaign"),
        Column("created"),
        Column("state"),
        Column("jobs", right=True),
        Column("benchmark", flexible=True),
    )
    rows = [(one.id, one.created_at[:19], one.state, f"{one.jobs_ended}/{one.jobs}", one.benchmark) for one in found]
    say("\n".join(lay_out(columns, rows, terminal_width())))


@app.command("show")
def show(
    campaign: Reference = "latest",
    form: FormatOption = Format.text,
    job: Annotated[int | None, typer.Option("--job", "-j", help="One job, by its number, in full.")] = None,
    store: StoreOption = None,
) -> None:
    """Show the results of a campaign, or one of its jobs in full."""
    from assay.api.rescore import kept_scores
    from assay.errors import UsageError
    from assay.report.detail import render_job
    from assay.report.reading import read_campaign
    from assay.report.scores import render_scores, score_lines

    kept = open_store(store)
    record = read_campaign(kept, kept.find(campaign))
    scores = kept_scores(kept, record.jobs)
    kept.close()
    if job is None:
        say(rendered(record, form))
        if form is Format.text and scores:
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
    store: StoreOption = None,
) -> None:
    """Write the results of a campaign as JSON and CSV, with every sample as Parquet and every file that runs left."""
    from assay.report.reading import read_campaign
    from assay.store.artefacts import plain_name
    from assay.store.samples import write_whole

    kept = open_store(store)
    record = read_campaign(kept, kept.find(campaign))
    folder = out / record.campaign
    write_whole(folder / "result.json", rendered(record, Format.json).encode())
    write_whole(folder / "result.csv", rendered(record, Format.csv).encode())
    for one in record.jobs:
        for run in one.runs:
            if run.samples:
                path = folder / "samples" / f"job-{one.index}-run-{run.run_id}.parquet"
                write_whole(path, kept.samples.at_hand(run.samples).read_bytes())
            for name, digest in run.files.items():
                path = folder / "files" / f"job-{one.index}-run-{run.run_id}-{plain_name(name)}"
                write_whole(path, kept.artefacts.at_hand(digest).read_bytes())
    kept.close()
    say(str(folder))


@app.command("rm")
def rm(campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN...")], store: StoreOption = None) -> None:
    """Remove campaigns with their samples; of those on a cluster also the shared folder."""
    from assay.engines.kubernetes.folder import folder_of
    from assay.engines.kubernetes.folder import remove_folder as remove_pods_folder
    from assay.engines.slurm.folder import refuse_followed, remove_folder

    kept = open_store(store)
    for reference in [kept.find(one) for one in campaigns]:
        refuse_followed(kept.folder, reference, folder_of(kept.folder, reference).path)
        kept.remove(reference)
        say(f"removed {reference}")
        remove_pods_folder(kept.folder, reference)
        if said := remove_folder(kept.folder, reference):
            say(said)
    kept.close()

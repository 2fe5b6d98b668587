"""`assay results`, `score`, `merge` and `report`: what was measured, in the store here or on a server."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    FailOn,
    Format,
    FormatOption,
    ServerOptions,
    SourceOptions,
    StoreOption,
    TextFormat,
    TextFormatOption,
    Verbs,
    open_store,
)
from assay.cli.output import exit_code, rendered, say, terminal_width, use_colour
from assay.cli.run import write_reports
from assay.errors import UsageError
from assay.units import seconds

if TYPE_CHECKING:
    from assay.analyse.records import MultiRunJobResult
    from assay.api.source import Source
    from assay.store.records import CampaignSummary


app = Verbs(help="List, show, export and remove results.")

Reference = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Id, its beginning, `latest` or `latest~1`.")]


@app.command("list")
def list_(
    form: FormatOption = Format.text,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="Also those in which nothing could be measured.")] = False,
    *,
    options: SourceOptions,
) -> None:
    """List campaigns, newest first."""
    with options.open() as source:
        campaigns, left_out = _newest(source, limit, everything=everything)
    if form is Format.json:
        say(json.dumps([asdict(campaign) for campaign in campaigns], indent=2))
        return
    if campaigns:
        from assay.report.sheet import text_table

        head = ("campaign", "created", "state", "jobs", "verdict", "benchmark")
        rows = [
            (
                campaign.id,
                campaign.created_at[:19],
                campaign.state,
                f"{campaign.jobs_ended}/{campaign.jobs}",
                _verdicts(campaign),
                campaign.benchmark,
            )
            for campaign in campaigns
        ]
        say("\n".join(text_table(head, rows, terminal_width(), right=(3,), flexible=(5,))))
    elif not left_out:
        say(f"no results yet in {source.name}\nnext    assay init; assay run bench.yaml")
    if left_out:
        what = "campaign" if left_out == 1 else "campaigns"
        say(f"{left_out} {what} in which nothing could be measured: `assay results list --all` lists them too")


_FURTHER_CAMPAIGNS = 50


def _newest(source: Source, limit: int, *, everything: bool) -> tuple[list[CampaignSummary], int]:
    """The newest campaigns, and how many between them were left out because nothing could be measured."""
    shown: list[CampaignSummary] = []
    left_out = 0
    for campaign in source.campaigns(2 * limit + _FURTHER_CAMPAIGNS):
        if everything or campaign.state != "failed":
            shown.append(campaign)
        else:
            left_out += 1
        if len(shown) == limit:
            break
    return shown, left_out


def _verdicts(campaign: CampaignSummary) -> str:
    """`valid` where all jobs are, else how many are what."""
    counts = {**campaign.verdicts, "failed": campaign.counts.get("failed", 0)}
    ordered = [(word, counts[word]) for word in ("valid", "suspect", "invalid", "failed") if counts.get(word)]
    if len(ordered) == 1:
        return ordered[0][0]
    return ", ".join(f"{count} {word}" for word, count in ordered) or "-"


@app.command("show")
def show(
    campaign: Reference = "latest",
    form: FormatOption = Format.text,
    job: Annotated[int | None, typer.Option("--job", "-j", help="One job, by its number, in full.")] = None,
    why: Annotated[bool, typer.Option("--why", help="Also every job in detail, with all reasons for doubt.")] = False,
    *,
    options: SourceOptions,
) -> None:
    """Show the results of a campaign, or one of its jobs in full."""
    from assay.report.terminal import render_job, render_scores, score_lines

    with options.open() as source:
        record = source.record(source.find(campaign))
        scores = source.scores(record.jobs) if form is Format.text else {}
    if job is None:
        say(rendered(record, form, why=why))
        if scores:
            scored = [result for result in record.jobs if result.job in scores]
            say(f"\n{render_scores(scored, scores, terminal_width())}")
        return
    chosen = next((result for result in record.jobs if result.index == job), None)
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
def rm(campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN")], store: StoreOption = None) -> None:
    """Remove campaigns with their samples; of those on a cluster also the shared folder."""
    from assay.engines import drive

    with open_store(store) as opened:
        for reference in [opened.find(campaign) for campaign in campaigns]:
            notes = drive.remove(opened, reference)
            say(f"removed {reference}")
            for note in notes:
                say(note)


def score(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="Campaign (id, its beginning, `latest`) or id of one job.")
    ] = "latest",
    scorer: Annotated[
        list[str] | None, typer.Option("--scorer", "-s", help="Who judges; those of the benchmark when left out.")
    ] = None,
    form: TextFormatOption = TextFormat.text,
    list_: Annotated[bool, typer.Option("--list", help="Show the scores that there are; compute none.")] = False,
    *,
    options: SourceOptions,
) -> None:
    """Judge the kept answers of a result, and add the scores to it; nothing is measured again."""
    from assay.api.rescore import scores_json

    campaign, is_job, _ = result.rpartition("-job-")
    with options.open() as source:
        record = source.record(source.find(campaign if is_job else result))
        results = _chosen(record.jobs, result if is_job else "")
        for job_result in () if list_ else _with_answers(results):
            source.score(job_result, scorer or ())
        scores = source.scores(results)
    if form is TextFormat.json:
        say(scores_json(results, scores))
        return
    from assay.report.terminal import render_scores

    say(render_scores(results, scores, terminal_width()) if scores else "no scores")


def _chosen(jobs: tuple[MultiRunJobResult, ...], job: str) -> list[MultiRunJobResult]:

    results = [result for result in jobs if not job or result.job == job]
    if not results:
        raise UsageError(
            f"no job {job!r} is there", code="unknown-job", try_="`assay results list` shows what is there"
        )
    return results


def _with_answers(results: list[MultiRunJobResult]) -> list[MultiRunJobResult]:
    """Those that can be judged; where none can, the error says why."""
    from assay.api.rescore import has_outputs

    able = [result for result in results if has_outputs(result)]
    if not able:
        raise UsageError(
            f"no answers were kept of {results[0].job}{' and others' if len(results) > 1 else ''}",
            code="no-outputs",
            try_="set workload.keep_outputs: true and measure again",
        )
    return able


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
    from assay.report.result import CampaignResult

    with (replace(options, server=ServerOptions()) if local else options).open() as source:
        record = source.record(source.find(campaign))
        merged = merge_parts(CampaignResult(record, source.name, source.samples, source.file))
        reports = write_reports(merged.beside_parts, out) if merged is not None and out else ()
    if merged is None:
        raise UsageError(
            f"no load of campaign {record.campaign} was shared by several machines",
            code="nothing-to-merge",
            try_="set load.hosts, and run it on a fleet",
        )
    say(rendered(merged.beside_parts.record, form))
    for path in reports:
        if form is Format.text:
            say(f"{path.suffix[1:]:<6}  {path}")
    raise typer.Exit(exit_code(merged.alone, fail_on))


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
    options: SourceOptions,
) -> None:
    """Write a campaign's report, or with --since a digest of what moved: one self-contained HTML file by default."""
    if since is None:
        if until is not None:
            raise UsageError("--until ends a digest, which --since begins", code="since", try_="give --since too")
        with options.open() as source:
            name, text = _campaign(source, campaign or "latest", form)
    elif campaign is not None:
        raise UsageError(
            f"--since tells of all series, not of the campaign {campaign}", code="since", try_="leave out one of them"
        )
    elif form is ReportFormat.csv:
        raise UsageError("a digest has no CSV form", code="format", try_="use html, md or json")
    else:
        begin, end = window(since, until, datetime.now(UTC))
        with options.open() as source:
            text = _digest(source, begin, end, form)
        name = f"digest-{datetime.fromtimestamp(end, UTC):%Y-%m-%d}"
    if out == Path("-"):
        say(text)
        return
    from assay.store.samples import write_whole

    path = out or Path(f"{name}.{form.value}")
    write_whole(path, text.encode())
    say(str(path.absolute()))


def _campaign(source: Source, reference: str, form: ReportFormat) -> tuple[str, str]:
    record = source.record(source.find(reference))
    if form is not ReportFormat.html:
        return record.campaign, rendered(record, Format(form.value))
    from assay.report.html import render_html

    return record.campaign, render_html(record, source.samples, source.file)


def _digest(source: Source, begin: float, end: float, form: ReportFormat) -> str:
    from assay.alert.digest import build, digest_markdown
    from assay.alert.digest.material import read
    from assay.documents import to_json
    from assay.version import __version__

    reading = read(source, begin, end)
    digest = build(reading.material, begin, end, __version__)
    if form is ReportFormat.json:
        return to_json(digest, indent=2) + "\n"
    if form is ReportFormat.md:
        return digest_markdown(digest)
    from assay.alert.digest.html import digest_html

    return digest_html(digest, reading.spots, reading.past)


def window(since: str, until: str | None, now: datetime) -> tuple[float, float]:
    """The time that a digest speaks of, in seconds since 1970.

    Args:
        since: A duration such as `7d`, or a date.
        until: A date, or the present.
        now: The present.
    """
    end = now.timestamp() if until is None else _moment(until, "--until")
    try:
        begin = end - seconds(since)
    except ValueError:
        begin = _moment(since, "--since")
    if begin >= end:
        raise UsageError(
            f"--since {since} does not lie before the end of the digest",
            code="since",
            try_="give a duration such as 7d, or an earlier date",
        )
    return begin, end


def _moment(text: str, option: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} is {text!r}, which is neither a duration nor a date",
            code="since",
            try_="write for example 7d, 24h, 2026-01-31 or 2026-01-31T06:00",
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

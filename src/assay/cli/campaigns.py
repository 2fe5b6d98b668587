"""`assay campaigns` and `assay jobs`: what was submitted to a server, or from here to a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import (
    FailOn,
    Format,
    FormatOption,
    ServerOptions,
    StoreOption,
    TextFormat,
    TextFormatOption,
    Verbs,
    open_store,
)
from assay.cli.output import moment, rendered, say, say_json, say_table, terminal_width, use_colour
from assay.cli.run import CancelOption, end

if TYPE_CHECKING:
    from assay.engines.base import Engine
    from assay.place.fleet.client import FleetClient
    from assay.report.live import View

campaigns_app = Verbs(help="List, follow, cancel and repeat campaigns of a server or cluster.")

Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Id of the campaign.")]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")]


@campaigns_app.command("list")
def list_(
    state: Annotated[str, typer.Option("--state", help="Only campaigns in this state.")] = "",
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only campaigns of this benchmark.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 20,
    form: TextFormatOption = TextFormat.text,
    *,
    server: ServerOptions,
) -> None:
    """List campaigns, newest first."""
    client = server.connect()
    asked = {"state": state, "benchmark": benchmark, "limit": limit}
    campaigns = client.get("/campaigns", {name: value for name, value in asked.items() if value})["items"]
    if form is TextFormat.json:
        say_json(campaigns)
        return
    rows = [
        (
            campaign["id"],
            campaign["created_at"][:19],
            campaign["state"],
            f"{campaign['jobs_ended']}/{campaign['jobs']}",
            campaign["benchmark"],
        )
        for campaign in campaigns
    ]
    say_table(
        ("campaign", "created", "state", "jobs", "benchmark"),
        rows,
        "no campaigns yet; `assay run FILE --server URL` submits one",
        flexible="benchmark",
    )


@campaigns_app.command("show")
def show(campaign: Campaign, form: FormatOption = Format.text, *, server: ServerOptions) -> None:
    """Show the results of a campaign, as far as there are any."""
    from assay.engines.fleet import read

    say(rendered(read(server.connect(), campaign).record, form))


@campaigns_app.command("attach")
def attach(
    campaign: Campaign,
    form: FormatOption = Format.text,
    fail_on: FailOnOption = FailOn.invalid,
    *,
    server: ServerOptions,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    store: StoreOption = None,
    cancel_on_interrupt: CancelOption = False,
) -> None:
    """Follow a campaign to its end, as if it had been started here.

    A campaign on a cluster that this store knows is found without a server; what was not submitted yet is submitted.
    Progress is reported to the server that is named here or was named before, with everything that it has missed.
    """
    from assay.engines import drive
    from assay.engines.base import FollowOptions
    from assay.report.live import view_for

    view = view_for(text=form is Format.text, quiet=quiet)
    with _submitted(campaign, store, server, view) as there:
        options = FollowOptions(cancel_on_interrupt=cancel_on_interrupt, server=there.reported_to)
        result = drive.attach(there.engine, view, options)
    end(result, form, fail_on)


@campaigns_app.command("placement")
def placement(campaign: Campaign, form: TextFormatOption = TextFormat.text, *, server: ServerOptions) -> None:
    """Show which agents can take a campaign's jobs, and what the others lack."""
    from assay.report.sheet import plain

    placement = server.connect().get(f"/campaigns/{campaign}/placement")
    if form is TextFormat.json:
        say_json(placement)
        return
    for group in placement["groups"]:
        say(plain(f"{group['jobs']} job{'' if group['jobs'] == 1 else 's'}: {group['needs']}"))
        say(plain(f"  can take it: {', '.join(group['agents']) or 'no agent'}"))
        for name, lacking in group["missing"].items():
            say(plain(f"  {name} cannot: {'; '.join(lacking)}"))


@campaigns_app.command("cancel")
def cancel(
    campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN")],
    *,
    server: ServerOptions,
    store: StoreOption = None,
) -> None:
    """Cancel every job of a campaign that has not ended; on a cluster, all that it has there is removed."""
    from assay.engines import drive
    from assay.report.live import PlainView

    view = PlainView()
    for name in campaigns:
        with _submitted(name, store, server, view) as there:
            say(f"{name}: {drive.cancel(there.engine, view, there.reported_to)}")


@dataclass(frozen=True, slots=True)
class _SubmittedCampaign:
    """A campaign that was submitted to a cluster from here, or to a server."""

    engine: Engine[Any, Any]
    reported_to: FleetClient | None
    """The server that the progress of a campaign on a cluster is reported to."""


@contextmanager
def _submitted(campaign: str, store: Path | None, server: ServerOptions, view: View) -> Iterator[_SubmittedCampaign]:
    """A campaign of the store here that is on a cluster, or one that a server must know."""
    from assay.clock import SYSTEM_CLOCK
    from assay.engines.base import engine_in, engine_named
    from assay.errors import UsageError

    with open_store(store) as opened:
        try:
            name = opened.find(campaign)
        except UsageError:  # no such campaign here
            name = ""
        engine = engine_in(opened.folder, name) if name else engine_named("local")
        folder = engine.folder_of(opened.folder, name)
        if folder is not None:
            yield _SubmittedCampaign(
                engine.open(opened, name, view, SYSTEM_CLOCK), _reporting_server(server, folder.path)
            )
            return
    client = server.connect()
    yield _SubmittedCampaign(engine_named("fleet").open(client, campaign, view, SYSTEM_CLOCK), None)


def _reporting_server(named: ServerOptions, folder: Path) -> FleetClient | None:
    """The server that progress is reported to: the one that is named, or the one of an earlier run."""
    from assay.engines.reporting import remembered_server

    url = named.url or remembered_server(folder)
    # A server from an earlier run is informed if it answers; only one that was named now must be right.
    return replace(named, url=url).connect(greet=bool(named.url)) if url else None


@campaigns_app.command("retry")
def retry(campaign: Campaign, *, server: ServerOptions) -> None:
    """Offer the failed, cancelled and set-aside jobs of a campaign again."""
    say(f"{campaign}: {server.connect().post(f'/campaigns/{campaign}/retry')['state']}")


@campaigns_app.command("resubmit")
def resubmit(campaign: Campaign, *, server: ServerOptions) -> None:
    """Submit the same benchmark once more, as a new campaign."""
    say(str(server.connect().post(f"/campaigns/{campaign}/resubmit")["id"]))


@campaigns_app.command("rm")
def rm(campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN")], *, server: ServerOptions) -> None:
    """Remove campaigns with their results from the server."""
    client = server.connect()
    for campaign in campaigns:
        client.delete(f"/campaigns/{campaign}")
        say(f"removed {campaign}")


jobs_app = Verbs(help="List, show, cancel and retry single jobs of a server.")

JobName = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job.")]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of jobs.")]


@jobs_app.command("list")
def list_jobs(
    state: Annotated[str, typer.Option("--state", help="Only jobs in this state.")] = "",
    campaign: Annotated[str, typer.Option("--campaign", help="Only jobs of this campaign.")] = "",
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only jobs of this benchmark.")] = "",
    agent: Annotated[str, typer.Option("--agent", help="Only jobs that this agent holds or held last.")] = "",
    text: Annotated[str, typer.Option("--text", help="Only jobs whose id, benchmark or point contains this.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    form: TextFormatOption = TextFormat.text,
    *,
    server: ServerOptions,
) -> None:
    """List jobs, newest first."""
    asked = {"state": state, "campaign": campaign, "benchmark": benchmark, "agent": agent, "text": text, "limit": limit}
    client = server.connect()
    jobs = client.get("/jobs", {name: value for name, value in asked.items() if value})["items"]
    if form is TextFormat.json:
        say_json(jobs)
        return
    rows = [
        (job["id"], job["state"], job["verdict"] or "", job["agent"] or "", _now(job), job["label"]) for job in jobs
    ]
    say_table(("job", "state", "verdict", "agent", "now", "point"), rows, "no such jobs", flexible="point")


@jobs_app.command("show")
def show_job(job: JobName, form: TextFormatOption = TextFormat.text, *, server: ServerOptions) -> None:
    """Show a job: its result, its attempts and everything that happened to it."""
    from assay.analyse.records import MultiRunJobResult
    from assay.documents import from_json
    from assay.report.terminal import render_job

    client = server.connect()
    record = client.get(f"/jobs/{job}")
    if form is TextFormat.json:
        say_json(record)
        return
    result = from_json(MultiRunJobResult, client.text(f"/jobs/{job}/result"), source=job)
    say(render_job(result, width=terminal_width(), colour=use_colour()))
    say("history")
    for event in record["history"]:
        detail = ", ".join(f"{name} {value}" for name, value in event["detail"].items())
        say(f"  {moment(event['at'])}  {event['kind']}{f' ({detail})' if detail else ''}")


@jobs_app.command("cancel")
def cancel_jobs(jobs: Jobs, *, server: ServerOptions) -> None:
    """Cancel jobs, whether they wait or run."""
    _batch("cancel", jobs, server.connect())


@jobs_app.command("retry")
def retry_jobs(jobs: Jobs, *, server: ServerOptions) -> None:
    """Offer failed, cancelled or set-aside jobs again."""
    _batch("retry", jobs, server.connect())


def _batch(action: str, jobs: list[str], client: Any) -> None:  # noqa: ANN401  (a FleetClient; importing it is slow)
    answer = client.post("/jobs/batch", {"action": action, "jobs": jobs})
    failed = False
    for outcome in answer["outcomes"]:
        failed = failed or not outcome["done"]
        say(f"{outcome['job']}: {outcome['state'] if outcome['done'] else outcome['reason']}")
    if failed:
        raise typer.Exit(1)


def _now(job: dict[str, Any]) -> str:
    """What a running job does now."""
    progress = job["progress"]
    if job["state"] != "running" or not progress:
        return ""
    return f"run {progress['run'] + 1}/{progress['runs']} {progress['phase']}"

"""`assay campaigns`: what was submitted to a server, or from here to a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    FailOn,
    Format,
    FormatOption,
    JsonOption,
    ServerOptions,
    StoreOption,
    Verbs,
    open_store,
)
from assay.cli.output import rendered, say, say_json, say_table
from assay.cli.run import CancelOption, end

if TYPE_CHECKING:
    from assay.analyse.records import CampaignRecord
    from assay.engines.base import FollowOptions
    from assay.place.fleet.client import FleetClient
    from assay.report.live import View
    from assay.report.result import CampaignResult
    from assay.store.store import Store

app = Verbs(
    help="List, follow, cancel and repeat campaigns of a server or cluster.",
)

Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Id of the campaign.")]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")]


@app.command("list")
def list_(
    state: Annotated[str, typer.Option("--state", help="Only campaigns in this state.")] = "",
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only campaigns of this benchmark.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 20,
    json_: JsonOption = False,
    *,
    server: ServerOptions,
) -> None:
    """List campaigns, newest first."""
    client = server.connect()
    asked = {"state": state, "benchmark": benchmark, "limit": limit}
    found = client.get("/campaigns", {name: value for name, value in asked.items() if value})["items"]
    if json_:
        say_json(found)
        return
    rows = [
        (one["id"], one["created_at"][:19], one["state"], f"{one['jobs_ended']}/{one['jobs']}", one["benchmark"])
        for one in found
    ]
    say_table(
        ("campaign", "created", "state", "jobs", "benchmark"),
        rows,
        "no campaigns yet; `assay run FILE --server URL` submits one",
        flexible="benchmark",
    )


@app.command("show")
def show(
    campaign: Campaign,
    form: FormatOption = Format.text,
    *,
    server: ServerOptions,
) -> None:
    """Show the results of a campaign, as far as there are any."""
    from assay.engines.fleet.campaign import read

    say(rendered(read(server.connect(), campaign).record, form))


@app.command("attach")
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
    The server that is named here, or was told about it before, is told how it goes, and whatever it has missed.
    """
    from assay.report.live import view_for

    view = view_for(text=form is Format.text, quiet=quiet)
    if (kept := _on_cluster(campaign, store)) is not None:
        from assay.engines.base import FollowOptions

        try:
            told = _told(kept, campaign, server, token_file, ca)
            manner = FollowOptions(cancel_on_interrupt=cancel_on_interrupt, server=told)
            record = _followed(kept, kept.find(campaign), view, manner)
        finally:
            kept.close()
        end(_result(kept, record), form, fail_on)
    from assay.engines.fleet.campaign import follow

    end(follow(server.connect(), campaign, view), form, fail_on)


def _followed(kept: Store, campaign: str, view: View, manner: FollowOptions) -> CampaignRecord:
    """Go on with a campaign on whichever cluster it was submitted to."""
    from assay.clock import SYSTEM_CLOCK
    from assay.engines.kubernetes.folder import is_on_kubernetes

    if is_on_kubernetes(kept.folder, campaign):
        from assay.engines.kubernetes.attach import attach as follow
    else:
        from assay.engines.slurm.attach import attach as follow
    return follow(kept, campaign, view, SYSTEM_CLOCK, manner)


@app.command("placement")
def placement(
    campaign: Campaign,
    json_: JsonOption = False,
    *,
    server: ServerOptions,
) -> None:
    """Show which agents can take a campaign's jobs, and what the others lack."""
    from assay.report.grid import plain

    found = server.connect().get(f"/campaigns/{campaign}/placement")
    if json_:
        say_json(found)
        return
    for group in found["groups"]:
        say(plain(f"{group['jobs']} job{'' if group['jobs'] == 1 else 's'}: {group['needs']}"))
        say(plain(f"  can take it: {', '.join(group['agents']) or 'nobody'}"))
        for name, lacking in group["missing"].items():
            say(plain(f"  {name} cannot: {'; '.join(lacking)}"))


@app.command("cancel")
def cancel(
    campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN...")],
    *,
    server: ServerOptions,
    store: StoreOption = None,
) -> None:
    """Cancel every job of a campaign that has not ended; on a cluster, all that it has there is removed."""
    client = None
    for one in campaigns:
        if (kept := _on_cluster(one, store)) is not None:
            say(f"{one}: {_cancelled_on_cluster(kept, one, _told(kept, one, server, token_file, ca))}")
            continue
        client = client or server.connect()
        say(f"{one}: {client.post(f'/campaigns/{one}/cancel')['state']}")


def _cancelled_on_cluster(kept: Store, campaign: str, told: FleetClient | None) -> str:
    from assay.clock import SYSTEM_CLOCK
    from assay.engines.kubernetes.folder import is_on_kubernetes
    from assay.report.live import PlainView

    known = kept.find(campaign)
    if is_on_kubernetes(kept.folder, known):
        from assay.engines.kubernetes.attach import cancel as end_all
    else:
        from assay.engines.slurm.attach import cancel as end_all
    try:
        return end_all(kept, known, PlainView(), SYSTEM_CLOCK, told).state
    finally:
        kept.close()


def _told(
    kept: Store, campaign: str, server: str | None, token_file: Path | None, ca: Path | None
) -> FleetClient | None:
    """The server that is told about a campaign on a cluster: the one that is named, or the one that was told before."""
    from assay.engines.kubernetes.folder import folder_of as pods_folder_of
    from assay.engines.kubernetes.folder import is_on_kubernetes
    from assay.engines.reporting import remembered_server
    from assay.engines.slurm.folder import folder_of

    known = kept.find(campaign)
    there = pods_folder_of if is_on_kubernetes(kept.folder, known) else folder_of
    named = server or remembered_server(there(kept.folder, known).path)
    # A server from an earlier run is informed if it answers; only one that was named now must be right.
    return connect(named, token_file, ca, greet=bool(server)) if named else None


def _on_cluster(campaign: str, store: Path | None) -> Store | None:
    """The store here, where a campaign of it was submitted to a cluster; None where a server must know it."""
    from assay.engines.kubernetes.folder import is_on_kubernetes
    from assay.engines.slurm.folder import is_on_cluster
    from assay.errors import UsageError

    kept = open_store(store)
    try:
        known = kept.find(campaign)
        if is_on_cluster(kept.folder, known) or is_on_kubernetes(kept.folder, known):
            return kept
    except UsageError:  # no such campaign here
        pass
    kept.close()
    return None


def _result(kept: Store, record: CampaignRecord) -> CampaignResult:
    from assay.report.result import kept_result

    return kept_result(kept.folder, record)


@app.command("retry")
def retry(
    campaign: Campaign,
    *,
    server: ServerOptions,
) -> None:
    """Offer the failed, cancelled and set-aside jobs of a campaign again."""
    say(f"{campaign}: {server.connect().post(f'/campaigns/{campaign}/retry')['state']}")


@app.command("resubmit")
def resubmit(
    campaign: Campaign,
    *,
    server: ServerOptions,
) -> None:
    """Submit the same benchmark once more, as a new campaign."""
    say(str(server.connect().post(f"/campaigns/{campaign}/resubmit")["id"]))


@app.command("rm")
def rm(
    campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN...")],
    *,
    server: ServerOptions,
) -> None:
    """Remove campaigns with their results from the server."""
    client = server.connect()
    for one in campaigns:
        client.delete(f"/campaigns/{one}")
        say(f"removed {one}")

"""`assay campaigns`: what was submitted to a server."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.cli.options import FailOn, Format, FormatOption, rendered, say
from assay.cli.run import end
from assay.cli.server_options import (
    CaOption,
    JsonOption,
    ServerOption,
    TokenFileOption,
    connect,
    say_json,
    say_table,
)

app = typer.Typer(help="List, follow, cancel and repeat campaigns of a server.", no_args_is_help=True,
                  rich_markup_mode=None)  # fmt: skip

Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Id of the campaign.")]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")]


@app.command("list")
def list_(
    state: Annotated[str, typer.Option("--state", help="Only campaigns in this state.")] = "",
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only campaigns of this benchmark.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 20,
    json_: JsonOption = False,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """List campaigns, newest first."""
    client = connect(server, token_file, ca)
    asked = {"state": state, "benchmark": benchmark, "limit": limit}
    found = client.get("/campaigns", {name: value for name, value in asked.items() if value})["items"]
    if json_:
        say_json(found)
        return
    rows = [
        (one["id"], one["created_at"][:19], one["state"], f"{one['jobs_ended']}/{one['jobs']}", one["benchmark"])
        for one in found
    ]
    say_table(("campaign", "created", "state", "jobs", "benchmark"), rows,
              "no campaigns yet; `assay run FILE --server URL` submits one", flexible="benchmark")  # fmt: skip


@app.command("show")
def show(
    campaign: Campaign,
    form: FormatOption = Format.text,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """Show the results of a campaign, as far as there are any."""
    from assay.remote import read

    say(rendered(read(connect(server, token_file, ca), campaign).record, form))


@app.command("attach")
def attach(
    campaign: Campaign,
    form: FormatOption = Format.text,
    fail_on: FailOnOption = FailOn.invalid,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Follow a campaign to its end, as if it had been started here."""
    from assay.remote import follow
    from assay.report.live import view_for

    client = connect(server, token_file, ca)
    end(follow(client, campaign, view_for(text=form is Format.text, quiet=quiet)), form, fail_on)


@app.command("placement")
def placement(
    campaign: Campaign,
    json_: JsonOption = False,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """Show which agents can take a campaign's jobs, and what the others lack."""
    found = connect(server, token_file, ca).get(f"/campaigns/{campaign}/placement")
    if json_:
        say_json(found)
        return
    for group in found["groups"]:
        say(f"{group['jobs']} job{'' if group['jobs'] == 1 else 's'}: {group['needs']}")
        say(f"  can take it: {', '.join(group['agents']) or 'nobody'}")
        for name, lacking in group["missing"].items():
            say(f"  {name} cannot: {'; '.join(lacking)}")


@app.command("cancel")
def cancel(
    campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN...")],
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """Cancel every job of a campaign that has not ended."""
    client = connect(server, token_file, ca)
    for one in campaigns:
        say(f"{one}: {client.post(f'/campaigns/{one}/cancel')['state']}")


@app.command("retry")
def retry(
    campaign: Campaign, server: ServerOption = None, token_file: TokenFileOption = None, ca: CaOption = None
) -> None:
    """Offer the failed, cancelled and set-aside jobs of a campaign again."""
    say(f"{campaign}: {connect(server, token_file, ca).post(f'/campaigns/{campaign}/retry')['state']}")


@app.command("resubmit")
def resubmit(
    campaign: Campaign, server: ServerOption = None, token_file: TokenFileOption = None, ca: CaOption = None
) -> None:
    """Submit the same benchmark once more, as a new campaign."""
    say(str(connect(server, token_file, ca).post(f"/campaigns/{campaign}/resubmit")["id"]))


@app.command("rm")
def rm(
    campaigns: Annotated[list[str], typer.Argument(metavar="CAMPAIGN...")],
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
) -> None:
    """Remove campaigns with their results from the server."""
    client = connect(server, token_file, ca)
    for one in campaigns:
        client.delete(f"/campaigns/{one}")
        say(f"removed {one}")

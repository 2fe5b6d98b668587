"""`assay agents`: the devices of a server's fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import JsonOption, ServerOptions, Verbs
from assay.cli.output import in_words, labels_of, say, say_json, say_table

app = Verbs(help="List, add, label, drain and remove the agents of a server.")

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="Id or name of the agent.")]


@app.command("list")
def list_(json_: JsonOption = False, *, server: ServerOptions) -> None:
    """List agents with their state and what they hold."""
    found = list(server.connect().pages("/agents"))
    if json_:
        say_json(found)
        return
    rows = [
        (
            one["name"],
            one["id"],
            "draining" if one["draining"] else one["state"],
            f"{one['seconds_since_heartbeat']:.0f} s ago",
            " ".join(one["jobs"]),
            in_words(one["labels"]),
        )
        for one in found
    ]
    say_table(
        ("name", "id", "state", "heard", "jobs", "labels"),
        rows,
        "no agents yet; on a device: assay agent start --host URL",
        flexible="labels",
    )


@app.command("show")
def show(agent: Agent, *, server: ServerOptions) -> None:
    """Show everything that is known of an agent, as JSON."""
    say_json(server.connect().get(f"/agents/{agent}"))


@app.command("add")
def add(
    device: Annotated[
        str, typer.Argument(metavar="URL", help="Where `assay agent serve` listens, such as http://device:8081.")
    ],
    agent_token_env: Annotated[
        str, typer.Option("--agent-token-env", help="Environment variable with the token that the device asks for.")
    ] = "",
    agent_token_file: Annotated[
        Path | None, typer.Option("--agent-token-file", help="File with that token, as the device keeps it.")
    ] = None,
    reach: Annotated[
        str, typer.Option("--reach", metavar="URL", help="Where the device finds the server, if not as --server says.")
    ] = "",
    *,
    server: ServerOptions,
) -> None:
    """Have the server enrol a device that listens at a URL."""
    import os

    from assay.place.fleet.client import read_token

    secret = os.environ.get(agent_token_env, "") if agent_token_env else ""
    secret = secret or (read_token(agent_token_file) if agent_token_file else "") or ""
    asked = {"url": device, "token": secret, "server": reach or (server.url or "").rstrip("/")}
    answer = server.connect().post("/agents/add", {**asked})
    say(f"{answer['agent']} {answer['action']}")


@app.command("label")
def label(
    agent: Agent,
    labels: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="Labels; an empty value removes one.")],
    *,
    server: ServerOptions,
) -> None:
    """Give an agent labels, beside those that it brings itself."""
    from assay.report.sheet import plain

    changed = server.connect().patch(f"/agents/{agent}", {"labels": {**labels_of(labels)}})
    say(plain(f"{changed['name']}: {in_words(changed['labels'])}"))


@app.command("drain")
def drain(agent: Agent, *, server: ServerOptions) -> None:
    """Let an agent finish what it holds and give it nothing new."""
    server.connect().patch(f"/agents/{agent}", {"draining": True})
    say(f"{agent} takes no further jobs")


@app.command("resume")
def resume(agent: Agent, *, server: ServerOptions) -> None:
    """Let a draining agent take jobs again."""
    server.connect().patch(f"/agents/{agent}", {"draining": False})
    say(f"{agent} takes jobs again")


@app.command("reset")
def reset(agent: Agent, *, server: ServerOptions) -> None:
    """Declare a faulty agent sound again."""
    say(f"{agent} is {server.connect().post(f'/agents/{agent}/reset')['state']}")


@app.command("rm")
def rm(agent: Agent, *, server: ServerOptions) -> None:
    """Remove an agent; what it holds is offered to others."""
    server.connect().delete(f"/agents/{agent}")
    say(f"removed {agent}")

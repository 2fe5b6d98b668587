"""`assay schedules` and `assay agents`: benchmarks that a server runs by itself, and the devices of its fleet."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from assay.cli.options import BenchmarkFile, ServerOptions, SetOption, TextFormat, TextFormatOption, Verbs
from assay.cli.output import in_words, labels_of, say, say_json, say_table
from assay.clock import wall_time
from assay.errors import SpecError
from assay.units import show_seconds

if TYPE_CHECKING:
    from assay.spec.load import Loaded
    from assay.spec.schedule import Schedule

app = Verbs(help="Have a server run benchmarks by itself, at the times that their files name.")

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the benchmark, or id of the schedule.")]
Names = Annotated[list[str], typer.Argument(metavar="SCHEDULE", help="Names of benchmarks, or ids of schedules.")]
_SUBMITTED = ("submitted", "waiting")


@app.command("add")
def add(
    file: BenchmarkFile,
    settings: SetOption = None,
    agent: Annotated[str, typer.Option("--agent", help="Only this agent, by name or id.")] = "",
    form: TextFormatOption = TextFormat.text,
    *,
    server: ServerOptions,
) -> None:
    """Hand a benchmark with a schedule to a server; one of the same name is changed."""
    from assay.documents import to_plain
    from assay.engines.base import PlacementOptions
    from assay.engines.fleet import submission_of
    from assay.report.live import view_for
    from assay.spec.load import read_with

    loaded = read_with(file, settings or ())
    _scheduled(loaded)
    client = server.connect()
    view = view_for(text=form is TextFormat.text, quiet=form is TextFormat.json)
    try:
        submission = submission_of(loaded, client, PlacementOptions(agent=agent), view)
    finally:
        view.close()
    made = client.post("/schedules", to_plain(submission), repeat=True)
    if form is TextFormat.json:
        say_json(made)
        return
    for line in _described(made):
        say(line)


@app.command("list")
def list_(
    state: Annotated[str, typer.Option("--state", help="Only those that are `active` or `paused`.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    form: TextFormatOption = TextFormat.text,
    *,
    server: ServerOptions,
) -> None:
    """List schedules by name, with the next time and the outcome of the last one."""
    schedules = server.connect().get("/schedules", {"state": state, "limit": limit})["items"]
    if form is TextFormat.json:
        say_json(schedules)
        return
    rows = [
        (
            schedule["id"],
            schedule["schedule"]["cron"],
            _next(schedule),
            schedule["last"]["outcome"] if schedule["last"] else "",
            schedule["name"],
        )
        for schedule in schedules
    ]
    say_table(
        ("schedule", "cron", "next", "last", "benchmark"),
        rows,
        "no schedules yet; `assay schedules add FILE` makes one",
        flexible="benchmark",
    )


@app.command("show")
def show(
    schedule: Name,
    firings: Annotated[int, typer.Option("--firings", "-n", min=0, max=500, help="How many of its firings.")] = 10,
    form: TextFormatOption = TextFormat.text,
    *,
    server: ServerOptions,
) -> None:
    """Show a schedule: its next five times, and the newest outcomes with their reasons."""
    client = server.connect()
    view = client.get(_path(schedule))
    history = client.get(f"{_path(schedule)}/firings", {"limit": firings})["items"] if firings else []
    if form is TextFormat.json:
        say_json({**view, "firings": history})
        return
    for line in _described(view["summary"]):
        say(line)
    if firings:
        say("")
        for line in _history(history):
            say(line)


@app.command("pause")
def pause(schedules: Names, *, server: ServerOptions) -> None:
    """Let schedules rest: nothing fires until they are resumed."""
    client = server.connect()
    for schedule in schedules:
        say(f"{schedule}: {client.post(f'{_path(schedule)}/pause')['state']}")


@app.command("resume")
def resume(schedules: Names, *, server: ServerOptions) -> None:
    """Resume paused schedules; missed times are not made up for."""
    client = server.connect()
    for schedule in schedules:
        view = client.post(f"{_path(schedule)}/resume")
        say(f"{schedule}: {view['state']}, next {wall_time(view['next'][0]['local']) if view['next'] else 'never'}")


@app.command("rm")
def rm(schedules: Names, *, server: ServerOptions) -> None:
    """Remove schedules with their history; the campaigns that they submitted stay."""
    client = server.connect()
    for schedule in schedules:
        client.delete(_path(schedule))
        say(f"removed {schedule}")


@app.command("run")
def run_now(schedule: Name, form: TextFormatOption = TextFormat.text, *, server: ServerOptions) -> None:
    """Fire now, beside the due times; prints the campaign. Exit code 1 when it was left out, 3 when it failed."""
    firing = server.connect().post(f"{_path(schedule)}/run")
    if form is TextFormat.json:
        say_json(firing)
    elif firing["campaign"]:
        say(firing["campaign"])
    else:
        say(f"{firing['outcome']}: {firing['reason']}")
    if firing["outcome"] not in _SUBMITTED:
        raise typer.Exit(3 if firing["outcome"] == "failed" else 1)


@app.command("next")
def next_(
    file: BenchmarkFile,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many.")] = 5,
    settings: SetOption = None,
    form: TextFormatOption = TextFormat.text,
) -> None:
    """Show the next times at which a benchmark would run; nothing is asked of any server."""
    from assay.clock import SYSTEM_CLOCK
    from assay.plan.schedule import next_times, start_of
    from assay.spec.load import read_with

    loaded = read_with(file, settings or ())
    schedule, name = _scheduled(loaded), loaded.benchmark.benchmark
    due = next_times(schedule, SYSTEM_CLOCK.utc(), count)
    times = [
        {
            "due": due_at.timestamp(),
            "local": due_at.astimezone(schedule.zone).isoformat(timespec="seconds"),
            "starts": start_of(schedule, name, due_at).timestamp(),
        }
        for due_at in due
    ]
    if form is TextFormat.json:
        say_json(times)
        return
    for line in _times(times):
        say(line)


def _scheduled(loaded: Loaded) -> Schedule:
    if loaded.benchmark.schedule is None:
        raise SpecError(
            "the benchmark has no schedule",
            code="no-schedule",
            at=loaded.source.name,
            try_='add one to the file: schedule: "0 3 * * *"',
        )
    return loaded.benchmark.schedule


def _path(schedule: str) -> str:
    return f"/schedules/{quote(schedule, safe='')}"


def _described(view: Mapping[str, Any]) -> Iterable[str]:
    section = view["schedule"]
    yield f"schedule  {view['id']}  {view['name']}"
    yield f"state     {view['state']}"
    yield f"cron      {section['cron']}  {section['timezone']}"
    yield f"missed    {section['missed']}"
    yield f"overlap   {section['overlap']}"
    if section["jitter"]:
        yield f"jitter    up to {show_seconds(section['jitter'])}"
    yield from (f"next      {line}" for line in _times(view["next"]))


def _history(firings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Outcomes of due times, a line each; reasons are never cut."""
    from assay.report.sheet import text_table

    rows = [
        (
            wall_time(firing["local"]),
            firing["outcome"],
            firing["campaign"] or "",
            firing["campaign_state"] or "",
            firing["reason"],
        )
        for firing in firings
    ]
    if not rows:
        return ["it has not fired yet"]
    return text_table(("due", "outcome", "campaign", "state", "reason"), rows, sys.maxsize)


def _next(view: Mapping[str, Any]) -> str:
    """When a schedule is due next; without the weekday, so that a line of a list fits."""
    return wall_time(view["next"][0]["local"])[4:] if view["next"] else str(view["state"])


def _times(times: Iterable[Mapping[str, Any]]) -> list[str]:
    """Next times, a line each; what begins later than it is due says when, by the same clock."""
    return [wall_time(next_time["local"]) + _start(next_time) for next_time in times]


def _start(time: Mapping[str, Any]) -> str:
    from datetime import datetime

    if time["starts"] == time["due"]:
        return ""
    due = datetime.fromisoformat(time["local"])
    starts = datetime.fromtimestamp(time["starts"], due.tzinfo)
    return starts.strftime("  starts %H:%M:%S" if starts.date() == due.date() else "  starts %a %Y-%m-%d %H:%M:%S")


agents_app = Verbs(help="List, add, label, drain and remove the agents of a server.")

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="Id or name of the agent.")]


@agents_app.command("list")
def agent_list(form: TextFormatOption = TextFormat.text, *, server: ServerOptions) -> None:
    """List agents with their state and what they hold."""
    agents = list(server.connect().pages("/agents"))
    if form is TextFormat.json:
        say_json(agents)
        return
    rows = [
        (
            agent["name"],
            agent["id"],
            "draining" if agent["draining"] else agent["state"],
            f"{agent['seconds_since_heartbeat']:.0f} s ago",
            " ".join(agent["jobs"]),
            in_words(agent["labels"]),
        )
        for agent in agents
    ]
    say_table(
        ("name", "id", "state", "heard", "jobs", "labels"),
        rows,
        "no agents yet; on a device: assay agent start --server URL",
        flexible="labels",
    )


@agents_app.command("show")
def agent_show(agent: Agent, *, server: ServerOptions) -> None:
    """Show everything that is known of an agent, as JSON."""
    say_json(server.connect().get(f"/agents/{agent}"))


@agents_app.command("add")
def agent_add(
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


@agents_app.command("label")
def agent_label(
    agent: Agent,
    labels: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Labels; an empty value removes one.")],
    *,
    server: ServerOptions,
) -> None:
    """Give an agent labels, beside those that it brings itself."""
    from assay.report.sheet import plain

    changed = server.connect().patch(f"/agents/{agent}", {"labels": {**labels_of(labels)}})
    say(plain(f"{changed['name']}: {in_words(changed['labels'])}"))


@agents_app.command("drain")
def agent_drain(agent: Agent, *, server: ServerOptions) -> None:
    """Let an agent finish what it holds and give it nothing new."""
    server.connect().patch(f"/agents/{agent}", {"draining": True})
    say(f"{agent} takes no further jobs")


@agents_app.command("resume")
def agent_resume(agent: Agent, *, server: ServerOptions) -> None:
    """Let a draining agent take jobs again."""
    server.connect().patch(f"/agents/{agent}", {"draining": False})
    say(f"{agent} takes jobs again")


@agents_app.command("reset")
def agent_reset(agent: Agent, *, server: ServerOptions) -> None:
    """Declare a faulty agent sound again."""
    say(f"{agent} is {server.connect().post(f'/agents/{agent}/reset')['state']}")


@agents_app.command("rm")
def agent_rm(agent: Agent, *, server: ServerOptions) -> None:
    """Remove an agent; what it holds is offered to others."""
    server.connect().delete(f"/agents/{agent}")
    say(f"removed {agent}")

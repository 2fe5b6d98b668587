"""`assay schedule`: benchmarks that a server runs by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from assay.cli.options import BenchmarkFile, JsonOption, ServerOptions, SetOption, Verbs
from assay.cli.output import say, say_json, say_table
from assay.clock import wall_time

if TYPE_CHECKING:
    from assay.spec.load import Loaded
    from assay.spec.schedule import Schedule

app = Verbs(help="Have a server run benchmarks by itself, at the times that their files name.")

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the benchmark, or id of the schedule.")]
Names = Annotated[list[str], typer.Argument(metavar="SCHEDULE...", help="Names of benchmarks, or ids of schedules.")]
_SUBMITTED = ("submitted", "waiting")


@app.command("add")
def add(
    file: BenchmarkFile,
    settings: SetOption = None,
    agent: Annotated[str, typer.Option("--agent", help="Only this agent, by name or id.")] = "",
    json_: JsonOption = False,
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
    view = view_for(text=not json_, quiet=json_)
    try:
        submission = submission_of(loaded, client, PlacementOptions(agent=agent), view)
    finally:
        view.close()
    made = client.post("/schedules", to_plain(submission), repeat=True)
    if json_:
        say_json(made)
        return
    for line in _described(made):
        say(line)


@app.command("list")
def list_(
    state: Annotated[str, typer.Option("--state", help="Only those that are `active` or `paused`.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    json_: JsonOption = False,
    *,
    server: ServerOptions,
) -> None:
    """List schedules by name, with the next time and what became of the last one."""
    found = server.connect().get("/schedules", {"state": state, "limit": limit})["items"]
    if json_:
        say_json(found)
        return
    rows = [
        (one["id"], one["schedule"]["cron"], _next(one), one["last"]["outcome"] if one["last"] else "", one["name"])
        for one in found
    ]
    say_table(
        ("schedule", "cron", "next", "last", "benchmark"),
        rows,
        "no schedules yet; `assay schedule add FILE` makes one",
        flexible="benchmark",
    )


@app.command("show")
def show(
    schedule: Name,
    firings: Annotated[int, typer.Option("--firings", "-n", min=0, max=500, help="How many of its firings.")] = 10,
    json_: JsonOption = False,
    *,
    server: ServerOptions,
) -> None:
    """Show a schedule: its next five times, and what became of the newest ones, with reasons."""
    client = server.connect()
    found = client.get(_path(schedule))
    history = client.get(f"{_path(schedule)}/firings", {"limit": firings})["items"] if firings else []
    if json_:
        say_json({**found, "firings": history})
        return
    for line in _described(found["summary"]):
        say(line)
    if firings:
        say("")
        for line in _history(history):
            say(line)


@app.command("pause")
def pause(schedules: Names, *, server: ServerOptions) -> None:
    """Let schedules rest: nothing fires until they are resumed."""
    client = server.connect()
    for one in schedules:
        say(f"{one}: {client.post(f'{_path(one)}/pause')['state']}")


@app.command("resume")
def resume(schedules: Names, *, server: ServerOptions) -> None:
    """Let paused schedules go on; what was due meanwhile is not made up for."""
    client = server.connect()
    for one in schedules:
        view = client.post(f"{_path(one)}/resume")
        say(f"{one}: {view['state']}, next {wall_time(view['next'][0]['local']) if view['next'] else 'never'}")


@app.command("rm")
def rm(schedules: Names, *, server: ServerOptions) -> None:
    """Remove schedules with their history; the campaigns that they submitted stay."""
    client = server.connect()
    for one in schedules:
        client.delete(_path(one))
        say(f"removed {one}")


@app.command("run-now")
def run_now(schedule: Name, json_: JsonOption = False, *, server: ServerOptions) -> None:
    """Fire now, beside the due times; prints the campaign. Exit code 1 when it was left out, 3 when it failed."""
    firing = server.connect().post(f"{_path(schedule)}/run")
    if json_:
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
    json_: JsonOption = False,
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
            "due": one.timestamp(),
            "local": one.astimezone(schedule.zone).isoformat(timespec="seconds"),
            "starts": start_of(schedule, name, one).timestamp(),
        }
        for one in due
    ]
    if json_:
        say_json(times)
        return
    for line in _times(times):
        say(line)


def _scheduled(loaded: Loaded) -> Schedule:
    """The schedule of a benchmark.

    Raises:
        SpecError: if it has none.
    """
    from assay.errors import SpecError

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
    """A schedule in a few lines."""
    section = view["schedule"]
    yield f"schedule  {view['id']}  {view['name']}"
    yield f"state     {view['state']}"
    yield f"cron      {section['cron']}  {section['timezone']}"
    yield f"missed    {section['missed']}"
    yield f"overlap   {section['overlap']}"
    if section["jitter"]:
        from assay.units import show_seconds

        yield f"jitter    up to {show_seconds(section['jitter'])}"
    yield from (f"next      {line}" for line in _times(view["next"]))


def _history(firings: Iterable[Mapping[str, Any]]) -> list[str]:
    """What became of due times, a line each; reasons are never cut."""
    from assay.report.sheet import GridColumn, lay_out

    rows = [
        (wall_time(one["local"]), one["outcome"], one["campaign"] or "", one["campaign_state"] or "", one["reason"])
        for one in firings
    ]
    if not rows:
        return ["it has not fired yet"]
    return lay_out([GridColumn(name) for name in ("due", "outcome", "campaign", "state", "reason")], rows, sys.maxsize)


def _next(view: Mapping[str, Any]) -> str:
    """When a schedule is due next; without the weekday, so that a line of a list fits."""
    return wall_time(view["next"][0]["local"])[4:] if view["next"] else str(view["state"])


def _times(times: Iterable[Mapping[str, Any]]) -> list[str]:
    """Next times, a line each; what begins later than it is due says when, by the same clock."""
    return [wall_time(one["local"]) + _start(one) for one in times]


def _start(time: Mapping[str, Any]) -> str:
    from datetime import datetime

    if time["starts"] == time["due"]:
        return ""
    due = datetime.fromisoformat(time["local"])
    starts = datetime.fromtimestamp(time["starts"], due.tzinfo)
    return starts.strftime("  starts %H:%M:%S" if starts.date() == due.date() else "  starts %a %Y-%m-%d %H:%M:%S")

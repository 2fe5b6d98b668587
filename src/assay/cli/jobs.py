"""`assay jobs`: single jobs of a server's campaigns."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from assay.cli.options import JsonOption, ServerOptions, Verbs
from assay.cli.output import moment, say, say_json, say_table, terminal_width, use_colour

app = Verbs(help="List, show, cancel and retry single jobs of a server.")

JobName = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job.")]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")]


@app.command("list")
def list_(
    state: Annotated[str, typer.Option("--state", help="Only jobs in this state.")] = "",
    campaign: Annotated[str, typer.Option("--campaign", help="Only jobs of this campaign.")] = "",
    benchmark: Annotated[str, typer.Option("--benchmark", help="Only jobs of this benchmark.")] = "",
    agent: Annotated[str, typer.Option("--agent", help="Only jobs that this agent holds or held last.")] = "",
    text: Annotated[str, typer.Option("--text", help="Only jobs whose id, benchmark or point contains this.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    json_: JsonOption = False,
    *,
    server: ServerOptions,
) -> None:
    """List jobs, newest first."""
    asked = {"state": state, "campaign": campaign, "benchmark": benchmark, "agent": agent, "text": text, "limit": limit}
    client = server.connect()
    found = client.get("/jobs", {name: value for name, value in asked.items() if value})["items"]
    if json_:
        say_json(found)
        return
    rows = [
        (one["id"], one["state"], one["verdict"] or "", one["agent"] or "", _now(one), one["label"]) for one in found
    ]
    say_table(("job", "state", "verdict", "agent", "now", "point"), rows, "no such jobs", flexible="point")


@app.command("show")
def show(job: JobName, json_: JsonOption = False, *, server: ServerOptions) -> None:
    """Show a job: its result, its attempts and everything that happened to it."""
    from assay.analyse.records import MultiRunJobResult
    from assay.documents import from_json
    from assay.report.detail import render_job

    client = server.connect()
    found = client.get(f"/jobs/{job}")
    if json_:
        say_json(found)
        return
    result = from_json(MultiRunJobResult, client.text(f"/jobs/{job}/result"), source=job)
    say(render_job(result, width=terminal_width(), colour=use_colour()))
    say("history")
    for event in found["history"]:
        detail = ", ".join(f"{name} {value}" for name, value in event["detail"].items())
        say(f"  {moment(event['at'])}  {event['kind']}{f' ({detail})' if detail else ''}")


@app.command("logs")
def logs(job: JobName, *, server: ServerOptions) -> None:
    """Print the lines that a job's attempts wrote."""
    client = server.connect()
    after = 0
    while True:
        found = client.get(f"/jobs/{job}/logs", {"after": after})
        for line in found["lines"]:
            say(line["text"])
        if not found["lines"]:
            return
        after = found["next"]


@app.command("cancel")
def cancel(jobs: Jobs, *, server: ServerOptions) -> None:
    """Cancel jobs, whether they wait or run."""
    _batch("cancel", jobs, server.connect())


@app.command("retry")
def retry(jobs: Jobs, *, server: ServerOptions) -> None:
    """Offer failed, cancelled or set-aside jobs again."""
    _batch("retry", jobs, server.connect())


def _batch(action: str, jobs: list[str], client: Any) -> None:  # noqa: ANN401  (a FleetClient; importing it is slow)
    answer = client.post("/jobs/batch", {"action": action, "jobs": jobs})
    failed = False
    for one in answer["outcomes"]:
        failed = failed or not one["done"]
        say(f"{one['job']}: {one['state'] if one['done'] else one['reason']}")
    if failed:
        raise typer.Exit(1)


def _now(job: dict[str, Any]) -> str:
    """What a running job does now."""
    progress = job["progress"]
    if job["state"] != "running" or not progress:
        return ""
    return f"run {progress['run'] + 1}/{progress['runs']} {progress['phase']}"

"""`assay logs`: what a job, or a service that it used, wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import SourceOptions, open_store
from assay.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.engines.base import LogChunk
    from assay.place.fleet.client import FleetClient
    from assay.plan.job import Job
    from assay.store.store import Store

_JOB = re.compile(r"^(?P<campaign>.+)-job-(?P<index>\d+)$")
_STREAMS = ("out", "err")
# What is kept of a job itself, by the engine that ran it.
_OWN = ["slurm.out", "slurm.err", "pod.log", "command.log", "command.log.tail-before", "command.log.tail"]
_FOLLOW_S = 1.0


def logs(
    job: Annotated[
        str,
        typer.Argument(metavar="JOB", help="Id of the job; or a campaign: its first job, of a server's all its jobs."),
    ] = "latest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    service: Annotated[str, typer.Option("--service", help="Of this service, or of `monitor`.")] = "",
    *,
    options: SourceOptions,
) -> None:
    """Print what a job wrote, on a cluster, on a server's agent or here; `--service` for one of its services."""
    if options.is_server:
        _from_server(options.server.connect(), job, follow=follow, service=service)
        return
    with open_store(options.store) as kept:
        try:
            _from_store(kept, _job(kept, job), follow=follow, service=service)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def _job(kept: Store, name: str) -> Job:
    """The job that a person means.

    Raises:
        UsageError: if there is none.
    """
    from assay.errors import UsageError

    match = _JOB.match(name)
    campaign = kept.find(match["campaign"] if match else name)
    index = int(match["index"]) if match else 0
    _, stored = kept.campaign(campaign)
    found = next((one.job for one in stored if one.job.index == index), None)
    if found is None:
        raise UsageError(
            f"campaign {campaign} has no job {index}",
            code="unknown-job",
            try_=f"it has the jobs 0 to {len(stored) - 1}",
        )
    return found


def _from_store(kept: Store, job: Job, *, follow: bool, service: str) -> None:
    from assay.engines.base import engine_holding
    from assay.errors import UsageError

    engine = engine_holding(kept.folder, job.campaign)
    if engine is not None:
        try:
            if _show(engine.logs(kept, job, service, follow=follow)):
                return
        except UsageError as problem:
            # The shared folder may be gone, or the node may have started the service: then its runs have the log.
            if problem.problem.code not in ("no-service", "no-campaign") or not _of_runs(kept, job, service):
                raise
            return
        if not kept.runs(job.id):
            say("nothing was written yet")
            return
    if not _of_runs(kept, job, service):
        what = f"the service {service!r} of job {job.id}" if service else f"job {job.id}"
        raise UsageError(
            f"nothing is kept of what {what} wrote", code="no-log", at=str(kept.folder), try_=_known(kept, job)
        )


def _show(lines: Iterator[LogChunk]) -> bool:
    last, shown = None, False
    for line in lines:
        if line.source != last:
            say(f"==> {line.source} <==")
        last, shown = line.source, True
        say(line.text)
    return shown


def _of_runs(kept: Store, job: Job, service: str) -> bool:
    """Print what is kept with the runs of a job; False where there is nothing."""
    wanted = [f"service-{service}.{one}" for one in _STREAMS] if service else _OWN
    shown = False
    for run in kept.runs(job.id):
        for name in wanted:
            path = kept.file_of(job.id, run.run_id, name)
            if path is not None:
                shown = True
                say(f"==> run {run.run_id} {name} <==")
                say(path.read_text(encoding="utf-8", errors="replace"))
    if not shown and not service:
        shown = _of_attempts(kept, job)
    return shown


def _of_attempts(kept: Store, job: Job) -> bool:
    """Print the lines that an agent sent, or the last lines of failed runs."""
    from assay.store.fleet.transactions import read_logs

    after, shown = 0, False
    while (found := read_logs(kept.engine, job.id, after)).lines:
        for line in found.lines:
            shown = True
            say(line.text)
        after = found.next
    for run in kept.runs(job.id):
        if run.error is not None and run.error.log_tail and not shown:
            say(f"==> run {run.run_id}, its last lines <==")
            say("\n".join(run.error.log_tail))
            shown = True
    return shown


def _known(kept: Store, job: Job) -> str:
    names = sorted({name for run in kept.runs(job.id) for name in run.files if name.startswith("service-")})
    services = sorted({Path(name.removeprefix("service-")).stem for name in names})
    return f"--service {services[0]} (there is {', '.join(services)})" if services else "run it again with services"


def _from_server(client: FleetClient, name: str, *, follow: bool, service: str) -> None:
    """Print what a job of a server wrote; of a campaign, what each of its jobs wrote, under its name."""
    from assay.errors import UsageError

    jobs = _jobs_there(client, name)
    shown = False
    for job in jobs:
        title = f"==> {job} <==" if len(jobs) > 1 else ""
        if service:
            shown = _service_there(client, job, service, title) or shown
        else:
            shown = say_job_lines(client, job, title, follow=follow) or shown
    if shown:
        return
    if service:
        raise UsageError(f"nothing is kept of the service {service!r} of {name}", code="no-log", at=client.url)
    say("nothing was written")


def _jobs_there(client: FleetClient, name: str) -> list[str]:
    """The ids of the jobs that a person means, in their order."""
    if _JOB.match(name):
        return [name]
    from assay.engines.fleet import find

    found = client.pages("/jobs", {"campaign": find(client, name), "limit": 500})
    return [one["id"] for one in sorted(found, key=lambda one: int(one["index"]))]


def _service_there(client: FleetClient, job: str, service: str, title: str) -> bool:
    from assay.analyse.records import MultiRunJobResult
    from assay.documents import from_json

    result = from_json(MultiRunJobResult, client.text(f"/jobs/{job}/result"), source=job)
    kept = [
        (run.run_id, name, run.files[name])
        for run in result.runs
        for name in (f"service-{service}.{one}" for one in _STREAMS)
        if name in run.files
    ]
    shown = False
    for run, name, digest in kept:
        if (content := client.content(f"/artefacts/{digest}", missing_ok=True)) is None:
            continue
        if title and not shown:
            say(title)
        shown = True
        say(f"==> run {run} {name} <==\n{content.decode(errors='replace')}")
    return shown


def say_job_lines(client: FleetClient, job: str, title: str = "", *, follow: bool = False) -> bool:
    """Print the lines that the attempts of a job on a server wrote, below a title; False where there are none."""
    import time

    from assay.plan.lifecycle import FINAL

    after, shown = 0, False
    while True:
        over = not follow or client.get(f"/jobs/{job}")["summary"]["state"] in FINAL
        found = client.get(f"/jobs/{job}/logs", {"after": after})
        if found["lines"] and title and not shown:
            say(title)
        for line in found["lines"]:
            shown = True
            say(line["text"])
        after = found["next"]
        if over and not found["lines"]:
            return shown
        if not found["lines"]:
            time.sleep(_FOLLOW_S)

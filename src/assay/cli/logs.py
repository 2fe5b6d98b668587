"""`assay logs`: what a job, or a service that it used, wrote."""

from __future__ import annotations

import re
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


def logs(
    job: Annotated[
        str,
        typer.Argument(metavar="JOB", help="Id of the job; or a campaign: its first job, of a server's all its jobs."),
    ] = "latest",
    follow: Annotated[bool, typer.Option("--follow", help="Continue until the job has ended.")] = False,
    service: Annotated[str, typer.Option("--service", help="Of this service, or of `monitor`.")] = "",
    *,
    options: SourceOptions,
) -> None:
    """Print what a job wrote, on a cluster, on a server's agent or here; `--service` for one of its services."""
    if options.is_server:
        _from_server(options.server.connect(), job, follow=follow, service=service)
        return
    with open_store(options.store) as store:
        try:
            _from_store(store, _job(store, job), follow=follow, service=service)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def _job(store: Store, name: str) -> Job:
    """The job that a person means."""
    from assay.errors import UsageError

    match = _JOB.match(name)
    campaign = store.find(match["campaign"] if match else name)
    index = int(match["index"]) if match else 0
    _, stored = store.campaign(campaign)
    job = next((stored_job.job for stored_job in stored if stored_job.job.index == index), None)
    if job is None:
        raise UsageError(
            f"campaign {campaign} has no job {index}",
            code="unknown-job",
            try_=f"it has the jobs 0 to {len(stored) - 1}",
        )
    return job


def _from_store(store: Store, job: Job, *, follow: bool, service: str) -> None:
    """Print what the engine of a job has of it, else what the store keeps with its runs."""
    from assay.engines.base import engine_in
    from assay.engines.logs import stored_logs
    from assay.errors import UsageError

    engine = engine_in(store.folder, job.campaign)
    try:
        if show_logs(engine.logs(store, job, service, follow=follow)):
            return
    except UsageError as problem:
        # The shared folder may be gone, or the node may have started the service: then its runs have the log.
        if problem.problem.code not in ("no-service", "no-campaign"):
            raise
        try:
            show_logs(stored_logs(store, job, service))
        except UsageError:
            raise problem from None
        return
    if not store.runs(job.id):
        say("nothing was written yet")
        return
    show_logs(stored_logs(store, job, service))


def show_logs(chunks: Iterator[LogChunk], title: str = "") -> bool:
    """Print what was written below a title, with a line for each source; False where there is nothing."""
    last, shown = "", False
    for chunk in chunks:
        if title and not shown:
            say(title)
        if chunk.source != last:
            say(f"==> {chunk.source} <==")
        last, shown = chunk.source, True
        say(chunk.text)
    return shown


def _from_server(client: FleetClient, name: str, *, follow: bool, service: str) -> None:
    """Print what a job of a server wrote; of a campaign, what each of its jobs wrote, under its name."""
    from assay.engines.fleet import FleetEngine, FleetJob
    from assay.errors import UsageError

    jobs = _jobs_there(client, name)
    shown = [
        show_logs(
            FleetEngine.logs(client, FleetJob(index, job), service, follow=follow),
            f"==> {job} <==" if len(jobs) > 1 else "",
        )
        for index, job in enumerate(jobs)
    ]
    if any(shown):
        return
    if service:
        raise UsageError(f"nothing is kept of the service {service!r} of {name}", code="no-log", at=client.url)
    say("nothing was written")


def _jobs_there(client: FleetClient, name: str) -> list[str]:
    """The ids of the jobs that a person means, in their order."""
    if _JOB.match(name):
        return [name]
    from assay.engines.fleet import find

    jobs = client.pages("/jobs", {"campaign": find(client, name), "limit": 500})
    return [job["id"] for job in sorted(jobs, key=lambda job: int(job["index"]))]

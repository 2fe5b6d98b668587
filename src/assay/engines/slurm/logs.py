"""What the batch jobs and services of a campaign wrote: where it lies, and reading it as it grows."""

from __future__ import annotations

from collections.abc import Iterator

from assay.engines.base import LogLine
from assay.engines.logs import LogFile, follow_logs, read_logs
from assay.engines.slurm.batches import CampaignBatches
from assay.engines.slurm.folder import SharedFolder, SlurmCampaign, folder_of, read_document
from assay.engines.slurm.submit import read_submitted
from assay.errors import UsageError
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL
from assay.spec.clusters import MONITOR
from assay.store.store import Store


def logs(store: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogLine]:
    """What a job on Slurm or one of its services wrote, text by text.

    Raises:
        UsageError: if it has no such service.
    """
    if not follow:
        return read_logs(log_files(store, job, service))
    return follow_logs(lambda: log_files(store, job, service), lambda: _has_ended(store, job))


def log_files(store: Store, job: Job, service: str = "") -> tuple[LogFile, ...]:
    """The files that a job on a cluster writes, or a service that it uses.

    Raises:
        UsageError: if it has no such service.
    """
    folder = folder_of(store.folder, job.campaign)
    document = read_document(folder)
    ids = read_submitted(folder).ids
    if service:
        return _of_service(folder, document, ids, job, service)
    batches = CampaignBatches(folder, document, ids, {}, document.places())
    return tuple(LogFile(name, path) for name, path in batches.logs_of(job).items())


def _of_service(
    folder: SharedFolder, document: SlurmCampaign, ids: dict[str, str], job: Job, service: str
) -> tuple[LogFile, ...]:
    group, _ = document.place_of(job.index)
    if service == MONITOR and document.monitored:
        number = ids.get(MONITOR, "")
        streams = ("out", "err") if number else ()
        return tuple(LogFile(f"{MONITOR}.{one}", folder.log(MONITOR, number, one)) for one in streams)
    known = [one.name for one in group.services]
    if service not in known:
        own = list(job.definition.services)
        why = (
            "its node starts them, and their logs are kept with its runs"
            if service in own
            else "it has no such service"
        )
        names = ", ".join([*known, *([MONITOR] if document.monitored else [])]) or "none"
        raise UsageError(
            f"job {job.id} has no log of {service!r} here: {why}", code="no-service", try_=f"there is {names}"
        )
    own_logs = [LogFile(f"{service}.{one}", folder.service_log(group.name, service, one)) for one in ("out", "err")]
    batch = next((one for one in document.services_of(group.name) if one.service == service), None)
    number = ids.get(batch.name, "") if batch is not None else ""
    if batch is None or not number:
        return tuple(own_logs)
    # What held the service says when it was ready and why it ended.
    held = [LogFile(f"{batch.name} slurm.{one}", folder.log(batch.name, number, one)) for one in ("out", "err")]
    return (*own_logs, *held)


def _has_ended(store: Store, job: Job) -> bool:
    state = store.job(job.id).state
    return state in FINAL or (folder_of(store.folder, job.campaign).out(job.index) / "result.json").is_file()

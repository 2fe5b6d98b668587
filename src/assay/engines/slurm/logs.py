"""What the batch jobs and services of a campaign wrote: where it lies, and reading it as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.engines.slurm.document import ClusterCampaign, folder_of, read_document
from assay.engines.slurm.folder import Folder
from assay.engines.slurm.submit import read_submitted
from assay.engines.slurm.told import Seen
from assay.errors import UsageError
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL
from assay.spec.clusters import MONITOR
from assay.store.store import Store

_BLOCK = 1 << 16
_LOOK_S = 0.3


@dataclass(frozen=True, slots=True)
class Log:
    """One file that grows while a job runs."""

    title: str
    path: Path


def logs_of(store: Store, job: Job, service: str = "") -> tuple[Log, ...]:
    """The logs of a job on a cluster, or of a service that it uses.

    Raises:
        UsageError: if it has no such service.
    """
    folder = folder_of(store.folder, job.campaign)
    document = read_document(folder)
    ids = read_submitted(folder).ids
    if service:
        return _of_service(folder, document, ids, job, service)
    seen = Seen(folder, document, ids, {})
    return tuple(Log(name, path) for name, path in seen.logs_of(job).items())


def _of_service(
    folder: Folder, document: ClusterCampaign, ids: dict[str, str], job: Job, service: str
) -> tuple[Log, ...]:
    group, _ = document.place_of(job.index)
    if service == MONITOR and document.monitored:
        number = ids.get(MONITOR, "")
        return (
            tuple(Log(f"{MONITOR}.{one}", folder.log(MONITOR, number, one)) for one in ("out", "err")) if number else ()
        )
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
    own_logs = [Log(f"{service}.{one}", folder.service_log(group.name, service, one)) for one in ("out", "err")]
    batch = next((one for one in document.services_of(group.name) if one.service == service), None)
    number = ids.get(batch.name, "") if batch is not None else ""
    if batch is None or not number:
        return tuple(own_logs)
    # What held the service says when it was ready and why it ended.
    held = [Log(f"{batch.name} slurm.{one}", folder.log(batch.name, number, one)) for one in ("out", "err")]
    return (*own_logs, *held)


def read_logs(logs: Sequence[Log]) -> Iterator[tuple[Log, str]]:
    """What the logs hold now, one text after another."""
    for log in logs:
        try:
            text = log.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if text:
            yield log, text


def follow_logs(
    logs: Callable[[], Sequence[Log]], ended: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
) -> Iterator[tuple[Log, str]]:
    """What comes into the logs, as it comes, until the job has ended and everything was read.

    Args:
        logs: the files; asked again, since those of a job that waits are not known yet.
    """
    read: dict[Path, int] = {}
    while True:
        over = ended()
        quiet = True
        for log in logs():
            text, read[log.path] = _more(log.path, read.get(log.path, 0))
            if text:
                quiet = False
                yield log, text
        if over and quiet:
            return
        if quiet:
            sleep(_LOOK_S)


def _more(path: Path, begin: int) -> tuple[str, int]:
    """Whole lines after a place, and the next place; of a line without an end, what there is once it is long."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < begin:  # written anew: the job was put back into the queue
                begin = 0
            file.seek(begin)
            content = file.read(_BLOCK)
    except OSError:
        return "", begin
    whole = content.rfind(b"\n") + 1 or (len(content) if len(content) == _BLOCK else 0)
    return content[:whole].decode(errors="replace"), begin + whole


def has_ended(store: Store, job: Job) -> bool:
    state = store.job(job.id).state
    return state in FINAL or (folder_of(store.folder, job.campaign).out(job.index) / "result.json").is_file()

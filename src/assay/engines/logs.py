"""What jobs wrote: files that grow while a job runs, read now or followed, and what the store keeps with its runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.engines.base import LogChunk
from assay.errors import UsageError
from assay.plan.job import Job
from assay.store.store import Store

STREAMS = ("out", "err")
# What is kept of a job itself, by the engine that ran it.
_OWN = ("slurm.out", "slurm.err", "pod.log", "command.log", "command.log.tail-before", "command.log.tail")
_BLOCK = 1 << 16
_POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file that grows while a job runs."""

    title: str
    path: Path


def refuse_unknown_service(job: Job, service: str, there: Sequence[str], own: str) -> None:
    """Refuse a service whose log is not among those that are there.

    Args:
        own: why there is none of a service that starts with the job itself.
    """
    if service not in there:
        why = own if service in job.definition.services else "it has no such service"
        message = f"job {job.id} has no log of {service!r} here: {why}"
        raise UsageError(message, code="no-service", try_=f"there is {', '.join(there) or 'none'}")


def read_logs(logs: Sequence[LogFile]) -> Iterator[LogChunk]:
    """What the logs hold now, one text after another."""
    for log in logs:
        try:
            text = log.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if text:
            yield LogChunk(log.title, text)


def follow_logs(
    logs: Callable[[], Sequence[LogFile]], ended: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
) -> Iterator[LogChunk]:
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
                yield LogChunk(log.title, text)
        if over and quiet:
            return
        if quiet:
            sleep(_POLL_S)


def _more(path: Path, begin: int) -> tuple[str, int]:
    """Whole lines after a place, and the next place; of a line without an end, what there is once it is long."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < begin:  # written again from the start: the job was put back into the queue
                begin = 0
            file.seek(begin)
            content = file.read(_BLOCK)
    except OSError:
        return "", begin
    whole = content.rfind(b"\n") + 1 or (len(content) if len(content) == _BLOCK else 0)
    return content[:whole].decode(errors="replace"), begin + whole


def stored_logs(store: Store, job: Job, service: str = "") -> Iterator[LogChunk]:
    """What the store keeps of what a job or one of its services wrote.

    Raises:
        UsageError: `no-log` if it keeps nothing.
    """
    shown = False
    for chunk in _of_runs(store, job, service):
        shown = True
        yield chunk
    if not shown and not service:
        for chunk in _of_attempts(store, job):
            shown = True
            yield chunk
    if not shown:
        what = f"the service {service!r} of job {job.id}" if service else f"job {job.id}"
        raise UsageError(
            f"nothing is kept of what {what} wrote", code="no-log", at=str(store.folder), try_=_services(store, job)
        )


def _of_runs(store: Store, job: Job, service: str) -> Iterator[LogChunk]:
    names = [f"service-{service}.{stream}" for stream in STREAMS] if service else _OWN
    for run in store.runs(job.id):
        for name in names:
            path = store.file_of(job.id, run.run_id, name)
            if path is not None:
                yield LogChunk(f"run {run.run_id + 1} {name}", path.read_text(encoding="utf-8", errors="replace"))


def _of_attempts(store: Store, job: Job) -> Iterator[LogChunk]:
    """The lines that an agent sent, or the last lines of failed runs."""
    from assay.store.fleet.transactions import read_logs

    after, any_lines = 0, False
    while (page := read_logs(store.engine, job.id, after)).lines:
        any_lines = True
        yield from (LogChunk("", line.text) for line in page.lines)
        after = page.next
    if any_lines:
        return
    for run in store.runs(job.id):
        if run.error is not None and run.error.log_tail:
            yield LogChunk(f"run {run.run_id + 1}, its last lines", "\n".join(run.error.log_tail))
            return


def _services(store: Store, job: Job) -> str:
    names = {name for run in store.runs(job.id) for name in run.files if name.startswith("service-")}
    services = sorted({Path(name.removeprefix("service-")).stem for name in names})
    return f"--service {services[0]} (there is {', '.join(services)})" if services else "run it again with services"

"""What a service on another node says about itself, and how others wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from assay.documents import from_json, to_json
from assay.engines.node import service_patience_s
from assay.engines.slurm.folder import SharedFolder
from assay.errors import MeasureError, Problem, UsageError
from assay.files import write_whole
from assay.run.services import How, RunningService
from assay.spec.benchmark import Service

_POLL_S = 0.1
_NOTIFY_EVERY_S = 10.0
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """A service that is ready, as its file tells it."""

    name: str
    host: str
    port: int
    base_url: str
    how: str
    node: str
    slurm_job: str
    start_to_ready_s: float
    started_ns: int
    ready_ns: int
    stdout: str
    stderr: str
    facts: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    metrics: str | None = None
    """URL of its own metrics, where the file says that it has some."""

    def running(self) -> RunningService:
        """The service as the measuring process needs it; its process does not run on this machine."""
        return RunningService(
            name=self.name,
            host=self.host,
            port=self.port,
            base_url=self.base_url,
            started_ns=self.started_ns,
            ready_ns=self.ready_ns,
            pid=None,
            how=cast("How", self.how),
            stdout=Path(self.stdout),
            stderr=Path(self.stderr),
            facts={**self.facts, "node": self.node, "start_to_ready_s": f"{self.start_to_ready_s:.3f}"},
            secrets=self.secrets,
        )


def publish(
    folder: SharedFolder, group: str, running: RunningService, *, node: str, slurm_job: str, metrics: str | None
) -> None:
    """Say that a service is ready."""
    record = ServiceRecord(
        name=running.name,
        host=running.host,
        port=running.port,
        base_url=running.base_url,
        how=running.how,
        node=node,
        slurm_job=slurm_job,
        start_to_ready_s=running.start_to_ready_s,
        started_ns=running.started_ns,
        ready_ns=running.ready_ns,
        stdout=str(running.stdout),
        stderr=str(running.stderr),
        facts=dict(running.facts),
        secrets=running.secrets,
        metrics=metrics,
    )
    write_whole(folder.service(group, running.name), to_json(record, indent=2).encode(), mode=_MODE)


def publish_failure(folder: SharedFolder, group: str, name: str, problem: Problem) -> None:
    """Report that a service failed, so that no job waits for it."""
    write_whole(folder.failed_service(group, name), to_json(problem, indent=2).encode(), mode=_MODE)


def read_published(folder: SharedFolder, group: str, name: str) -> ServiceRecord | None:
    """What a service says about itself; None while it is not ready."""
    failed = folder.failed_service(group, name)
    try:
        problem = from_json(Problem, failed.read_bytes(), source=str(failed))
    except FileNotFoundError:
        problem = None
    if problem is not None:
        raise MeasureError(problem.message, code=problem.code, at=problem.at or f"services.{name}", try_=problem.try_)
    path = folder.service(group, name)
    try:
        return from_json(ServiceRecord, path.read_bytes(), source=str(path))
    except FileNotFoundError:
        return None


def await_services(
    folder: SharedFolder,
    group: str,
    services: Mapping[str, Service],
    *,
    notify: Callable[[str], None],
    unless: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, RunningService]:
    """Wait until services on other nodes are ready."""
    running: dict[str, RunningService] = {}
    begun_s = told_s = time.monotonic()
    while len(running) < len(services):
        unless()
        for name in services:
            if name not in running and (record := _published(folder, group, name)) is not None:
                running[name] = record.running()
        waiting = [name for name in services if name not in running]
        now_s = time.monotonic()
        if late := [name for name in waiting if now_s - begun_s > service_patience_s(services[name])]:
            raise _silent(late[0], service_patience_s(services[late[0]]))
        if waiting and now_s - told_s >= _NOTIFY_EVERY_S:
            told_s = now_s
            notify(f"waiting for {_list(waiting)} since {now_s - begun_s:.0f} s")
        if waiting:
            sleep(_POLL_S)
    return {name: running[name] for name in services}


def _published(folder: SharedFolder, group: str, name: str) -> ServiceRecord | None:
    try:
        return read_published(folder, group, name)
    except UsageError as wrong:
        message = f"what the service {name} published cannot be read: {wrong.problem.message}"
        raise MeasureError(message, code="service", at=wrong.problem.at) from None


def _silent(name: str, bound: float) -> MeasureError:
    message = f"the service {name} was neither ready nor failed within {bound:g} s"
    remedy = "was its batch job ended, or its node lost? look at its log, or raise ready.within"
    return MeasureError(message, code="service-not-ready", at=f"services.{name}", try_=remedy)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)

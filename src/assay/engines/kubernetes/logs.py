"""What a campaign's pods and services wrote: kept by the process that follows it, else read from Kubernetes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from assay.engines.base import LogChunk
from assay.engines.kubernetes.client.api import FORBIDDEN, SILENT, Document, name_of, uid_of
from assay.engines.kubernetes.client.client import Client, connect
from assay.engines.kubernetes.folder import KubernetesCampaign, PodFolder, known_folder
from assay.engines.kubernetes.objects.names import Part
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import CONTAINER, SERVICE
from assay.engines.kubernetes.observation import read_pod
from assay.engines.kubernetes.pod.log_transport import is_ours
from assay.engines.kubernetes.pod_logs import PodLog
from assay.engines.logs import LogFile, follow_logs, read_logs, refuse_unknown_service
from assay.errors import MeasureError
from assay.plan.job import FINAL, Job
from assay.run.scratch import is_held, scratch_folder
from assay.store.store import Store

_POLL_S = 1.0


def job_logs(store: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
    """What a job on Kubernetes or one of its services wrote, text by text."""
    folder = known_folder(store, job.campaign)
    document = folder.read_campaign(KubernetesCampaign)
    group = document.group_of(job.index)
    if service:
        own = "it runs in the job's pod, and its log is kept with the runs"
        refuse_unknown_service(job, service, [entry.name for entry in group.services], own)
    if _is_ended(store, job) or is_held(folder.path):
        stored_logs = kept_logs(folder, group, job, service)
        yield from follow_logs(lambda: stored_logs, lambda: _is_ended(store, job)) if follow else read_logs(stored_logs)
        return
    with scratch_folder() as scratch:
        api = connect(document.section.model_copy(update={"namespace": document.namespace}))
        live = _Live(api, document, group, job, service, scratch)
        if not follow:
            yield from read_logs(live.logs())
            return
        yield from follow_logs(live.logs, lambda: live.is_over or _is_ended(store, job))


def kept_logs(folder: PodFolder, group: Group, job: Job, service: str = "") -> tuple[LogFile, ...]:
    """The files into which the process that follows a campaign writes the output of its pods."""
    if service:
        return (LogFile(service, folder.service_log(group.name, service)),)
    ranks = range(group.pods if group.kind == "ranks" else 1)
    return tuple(LogFile(f"pod {rank}" if len(ranks) > 1 else "pod", folder.log(job.index, rank)) for rank in ranks)


@dataclass(slots=True)
class _Live:
    """Pods whose campaign no process follows: their logs are read into a folder that is removed afterwards."""

    api: Client
    document: KubernetesCampaign
    group: Group
    job: Job
    service: str
    scratch: Path
    is_over: bool = False
    """Whether the job has ended, for all that Kubernetes tells."""
    _logs: dict[str, tuple[LogFile, PodLog]] = field(default_factory=dict)
    _read_s: float = float("-inf")

    def logs(self) -> tuple[LogFile, ...]:
        """The files with what was written until now, asked for no more than once a second."""
        if time.monotonic() - self._read_s >= _POLL_S:
            self._read_s = time.monotonic()
            pods = self.api.list("Pod", self._part().selector()).items
            for pod in pods:
                self._read(pod)
            self.is_over = self._is_over(pods)
        return tuple(log for log, _ in self._logs.values())

    def _part(self) -> Part:
        campaign = self.document.campaign
        if self.service:
            return Part(campaign, "service", self.group.name, service=self.service)
        return Part(campaign, "job", self.group.name, self.job.index)

    def _is_over(self, pods: tuple[Document, ...]) -> bool:
        if self.service:
            pods = self.api.list(
                "Pod", Part(self.document.campaign, "job", self.group.name, self.job.index).selector()
            ).items
        return bool(pods) and all(read_pod(pod).is_over for pod in pods)

    def _read(self, pod: Document) -> None:
        uid, name = uid_of(pod), name_of(pod)
        if uid not in self._logs:
            path = self.scratch / f"{uid}.log"
            log = PodLog(self.api, name, SERVICE if self.service else CONTAINER, path, lambda line: not is_ours(line))
            self._logs[uid] = (LogFile(name, path), log)
        try:
            self._logs[uid][1].read()
        except MeasureError as problem:
            if problem.problem.code in (SILENT, FORBIDDEN):
                raise  # else it has not begun, or is gone


def _is_ended(store: Store, job: Job) -> bool:
    return store.job(job.id).state in FINAL

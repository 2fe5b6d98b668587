"""The same campaign on a server's fleet: upload what it needs, submit it, follow it, read its results back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import Clock, wall_time
from assay.documents import from_json
from assay.engines.base import (
    CampaignSize,
    FinishedJob,
    JobStatus,
    LogChunk,
    NullReporter,
    OpenJobs,
    PlacementOptions,
    Reporter,
    RunOptions,
    Snapshot,
)
from assay.engines.collect import Termination
from assay.engines.logs import STREAMS
from assay.errors import MeasureError, UsageError
from assay.hardware.environment import git_state
from assay.place.fleet.client import AWAY, FleetClient
from assay.place.fleet.protocol import Submission
from assay.plan.job import FINAL, JobFile
from assay.plan.plan import Plan
from assay.report.live import View
from assay.report.result import CampaignResult
from assay.report.sheet import plain
from assay.run.inputs import LocalPart, files_of
from assay.run.job_files import local_paths
from assay.run.models.sources import existing, hub_name
from assay.run.records import SampleSet
from assay.spec.load import Loaded

# While nothing is pushed, how often to ask; also the wait before asking again after the server went away.
POLL_S = 1.0
_PAGE = 500


def submission_of(loaded: Loaded, client: FleetClient, placement: PlacementOptions, view: View) -> Submission:
    """What to hand to a server; the files that it names are uploaded first."""
    # Every file that a point of the benchmark names on this machine
    from assay.run.inputs import plan_of

    all_parts: dict[str, tuple[LocalPart, ...]] = {}
    for job in plan_of(loaded).jobs:
        here = files_of(job.definition, loaded.base)
        for name in local_paths(job.definition):
            if name not in here and name != hub_name(job.definition.target):
                existing(name, loaded.base)  # says what is wrong with it, and what may have been meant
        all_parts |= here
    parts = all_parts
    _upload(parts, client, view)
    return Submission(
        document=loaded.source.document,
        files={text: tuple(_described(part) for part in local_parts) for text, local_parts in parts.items()},
        priority=placement.priority,
        deadline_s=placement.deadline_s,
        unplaceable=placement.unplaceable,
        spread=placement.spread,
        agent=placement.agent,
        git=git_state(loaded.base) or {},
    )


def find(client: FleetClient, reference: str) -> str:
    """The server's campaign that a reference names: an id, a unique beginning of one, `latest` or `latest~2`."""
    name, _, back = reference.partition("~")
    if name == "latest" and (back.isdigit() or not back):
        number = int(back or 0)
        listed = client.pages("/campaigns", {"limit": min(number + 1, _PAGE)})
        matches = [campaign["id"] for campaign in islice(listed, number, number + 1)]
    else:
        listed = client.pages("/campaigns", {"text": reference, "limit": _PAGE})
        matches = [campaign["id"] for campaign in listed if campaign["id"].startswith(reference)]
    if not matches:
        message = f"the server has no campaign {reference!r}"
        remedy = "`assay campaigns list` shows what is there"
        raise UsageError(message, code="unknown-campaign", at=client.url, try_=remedy)
    if len(matches) > 1 and reference not in matches:
        message = f"{reference!r} begins several campaigns: {', '.join(matches[:5])}"
        raise UsageError(message, code="ambiguous", at=client.url, try_="give more of the id")
    return reference if reference in matches else str(matches[0])


def read(client: FleetClient, campaign: str) -> CampaignResult:
    """The results of a campaign as the server has them now."""
    record = from_json(CampaignRecord, client.text(f"/campaigns/{campaign}/result"), source=campaign)
    return CampaignResult(
        record,
        client.url,
        lambda job, run: read_samples(client, job, run),
        lambda job, run, name: read_file(client, job, run, name),
    )


def placement_lines(placement: Mapping[str, Any]) -> list[str]:
    """What a person must know about where jobs can run: nothing when every job has a machine."""
    lines = []
    for group in placement.get("groups", ()):
        machines = group.get("machines", 1)
        if len(group["agents"]) >= machines:
            continue
        jobs = "1 job that needs" if group["jobs"] == 1 else f"{group['jobs']} jobs that need"
        who = f"only {', '.join(group['agents'])}" if group["agents"] else "no agent"
        lines.append(f"{who} can take {jobs} {group['needs']}")
        lines += [f"{name}: {'; '.join(lacking)}" for name, lacking in group["missing"].items()]
    return [plain(line) for line in lines]


def _schedule_line(schedule: Mapping[str, Any]) -> str:
    """What the server keeps beside the campaign when the file has a schedule."""
    if not schedule["next"]:
        return f'its schedule is kept as it is here, and stays paused; `assay schedules resume "{schedule["name"]}"`'
    coming = wall_time(schedule["next"][0]["local"])
    return f'the server runs it again by itself, next {coming}; see `assay schedules show "{schedule["name"]}"`'


def _upload(parts: Mapping[str, tuple[LocalPart, ...]], client: FleetClient, view: View) -> None:
    distinct = {part.sha256: part for local_parts in parts.values() for part in local_parts}
    for part in distinct.values():
        if not client.has(part.sha256):
            view.note(f"uploading {part.name} ({part.size_bytes / 1e6:.1f} MB)")
            client.upload(part.path, part.sha256, part.name)


def _described(part: LocalPart) -> JobFile:
    return JobFile(part.name, part.sha256, part.size_bytes)


def read_samples(client: FleetClient, job: str, run: int) -> tuple[SampleSet, ...]:
    from assay.store.samples import decode

    content = client.content(f"/jobs/{job}/runs/{run}/samples", missing_ok=True)
    return decode(content) if content else ()


def read_file(client: FleetClient, job: str, run: int, name: str) -> bytes | None:
    """A file that a run left, by its name; None when there is none."""
    result = from_json(MultiRunJobResult, client.text(f"/jobs/{job}/result"), source=job)
    digest = next((single_run.files.get(name) for single_run in result.runs if single_run.run_id == run), None)
    return client.content(f"/artefacts/{digest}", missing_ok=True) if digest else None


@dataclass(frozen=True, slots=True)
class FleetJob:
    """A job as the server lists it."""

    index: int
    id: str


@dataclass(frozen=True, slots=True)
class FleetDraft:
    """A benchmark for a fleet; its server checks it when it is submitted."""

    loaded: Loaded
    client: FleetClient
    placement: PlacementOptions

    def begin(self, view: View, clock: Clock) -> FleetEngine:  # noqa: ARG002  (the server has its own)
        """Upload the files that the benchmark names, and submit it."""
        answer = self.client.submit(submission_of(self.loaded, self.client, self.placement, view))
        for line in placement_lines(answer["placement"]):
            view.note(line)
        if scheduled := answer.get("schedule"):
            view.note(_schedule_line(scheduled))
        return FleetEngine(self.client, str(answer["id"]), view)


class FleetEngine:
    """One campaign on the agents of a server, which collects its results and ends it."""

    NAME: ClassVar[str] = "fleet"
    TITLE: ClassVar[str] = "the fleet"
    TRANSIENT: ClassVar[Collection[str]] = (AWAY,)
    RESUMABLE: ClassVar[Collection[str]] = (AWAY,)
    REQUEUES: ClassVar[bool] = False
    OUTLIVES: ClassVar[bool] = True
    IS_SERVED: ClassVar[bool] = True
    is_cancelled = False
    """Whether it is makes no difference here: the server ends its jobs."""

    def __init__(self, client: FleetClient, campaign: str, view: View) -> None:
        self.ledger = ServerLedger(client, campaign, view)
        self.where = f"on {client.url}"
        self._client, self._campaign, self._view = client, campaign, view
        self._state = "running"
        self._counts: Mapping[str, int] = {}
        self._shown: set[int] = set()
        """Jobs that were shown to have begun."""
        self._runs: dict[int, int] = {}
        """Job → run that was shown."""

    @classmethod
    def resume(cls, home: FleetClient, plan: Plan, view: View, clock: Clock) -> FleetEngine | None:  # noqa: ARG003
        """Each submission to a server is a campaign of its own."""
        return None

    @classmethod
    def check(cls, loaded: Loaded, plan: Plan, home: FleetClient, options: RunOptions) -> FleetDraft:  # noqa: ARG003
        return FleetDraft(loaded, home, options.placement)

    @classmethod
    def open(cls, home: FleetClient, campaign: str, view: View, clock: Clock) -> FleetEngine:  # noqa: ARG003
        return cls(home, campaign, view)

    @classmethod
    def logs(cls, home: FleetClient, job: FleetJob, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
        return service_logs(home, job.id, service) if service else job_lines(home, job.id, follow=follow)

    @classmethod
    def folder_of(cls, store: Path, campaign: str) -> None:  # noqa: ARG003
        return None

    @classmethod
    def remove(cls, store: Path, campaign: str) -> str:  # noqa: ARG003
        return ""

    def submit(self) -> None:
        """It was submitted when it began."""

    def advance(self, jobs: Collection[int]) -> int:  # noqa: ARG002  (the server offers them)
        return 0

    def snapshot(self, jobs: Mapping[int, FleetJob]) -> Snapshot:
        """Which jobs have ended since the last look; what the others do is shown run by run."""
        summary = self._client.get(f"/campaigns/{self._campaign}")
        self._state = summary["state"]
        ended: dict[int, JobStatus] = {}
        for job in self._jobs(summary):
            if job["index"] not in jobs or job["state"] == "pending":
                continue
            if job["index"] not in self._shown:
                self._shown.add(job["index"])
                self._view.job(job["id"], job["label"], job["index"], summary["jobs"])
            if job["state"] in FINAL:
                ended[job["index"]] = FinishedJob()
            elif job["state"] == "running" and job["progress"]:
                self._progress(job["index"], job["progress"])
        return Snapshot(ended)

    def _jobs(self, summary: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The jobs of the campaign; those beyond the first page only when the counts say that some have moved."""
        listed = summary["job_list"]
        if len(listed) == summary["jobs"]:
            yield from listed
        elif summary["counts"] != self._counts or summary["state"] != "running":
            yield from self._client.pages("/jobs", {"campaign": self._campaign, "limit": _PAGE})
        self._counts = summary["counts"]

    def _progress(self, index: int, progress: Mapping[str, Any]) -> None:
        if self._runs.get(index) != progress["run"]:
            self._runs[index] = progress["run"]
            self._view.run(progress["run"], progress["runs"])
        self._view.phase(progress["phase"])
        self._view.progress(progress["share"], progress["note"])

    def fetch(self, job: FleetJob, ended: FinishedJob) -> Termination:  # noqa: ARG002  (the server has what it left)
        return Termination(None, None, {}, {})

    def wait(self, *, moved: bool) -> None:  # noqa: ARG002
        time.sleep(POLL_S)

    def cancel(self) -> None:
        self._client.post(f"/campaigns/{self._campaign}/cancel")

    def finish(self) -> bool:
        if self._state == "running":
            self._state = self.ledger.state()
        return self._state != "running"

    def tear_down(self) -> str:
        return ""

    def settle(self) -> None:
        """The server completes the results."""

    def close(self) -> None:
        """Nothing is held open."""


class ServerLedger:
    """The record of a campaign on a server."""

    def __init__(self, client: FleetClient, campaign: str, view: View) -> None:
        self.campaign = campaign
        self._client, self._view = client, view

    @contextmanager
    def following(self, server: FleetClient | None, note: Callable[[str], None]) -> Iterator[Reporter]:  # noqa: ARG002
        """The server that it could be reported to is the one that has it."""
        yield NullReporter()

    def _summary(self) -> Mapping[str, Any]:
        """How the campaign stands; a server that goes away for a while is waited for."""
        silent = False
        while True:
            try:
                summary: Mapping[str, Any] = self._client.get(f"/campaigns/{self.campaign}")
            except MeasureError as away:
                if away.problem.code != AWAY:
                    raise
                if not silent:
                    self._view.note(f"{away.problem.message}; the campaign continues, waiting for the server")
                silent = True
                time.sleep(POLL_S)
            else:
                return summary

    def state(self) -> str:
        return str(self._summary()["state"])

    def size(self) -> CampaignSize:
        summary = self._summary()
        return CampaignSize(summary["jobs"], summary["runs"])

    def open_jobs(self) -> OpenJobs[FleetJob]:
        """All its jobs: the results of those that ended before are shown too."""
        summary = self._summary()
        listed = summary["job_list"]
        if len(listed) < summary["jobs"]:
            listed = self._client.pages("/jobs", {"campaign": self.campaign, "limit": _PAGE})
        jobs = {job["index"]: FleetJob(job["index"], job["id"]) for job in listed}
        return OpenJobs(jobs, set(), len(jobs))

    def started(self, job: FleetJob) -> None:
        """The server knows."""

    def released(self, job: FleetJob) -> None:
        """The server knows."""

    def collect(self, job: FleetJob, ended: Termination) -> MultiRunJobResult:  # noqa: ARG002
        """The result of an ended job; its runs are shown."""
        result = from_json(MultiRunJobResult, self._client.text(f"/jobs/{job.id}/result"), source=job.id)
        for run in result.runs:
            self._view.run(run.run_id, result.total_runs)
            self._view.run_done(run)
        return result

    def end(self, state: str) -> None:
        """The server ends it."""

    def findings(self, record: CampaignRecord, view: View) -> None:
        """The server takes results into their series."""

    def result(self) -> CampaignResult:
        return read(self._client, self.campaign)


def job_lines(client: FleetClient, job: str, *, follow: bool = False) -> Iterator[LogChunk]:
    """The lines that the attempts of a job on a server wrote."""
    after = 0
    while True:
        over = not follow or client.get(f"/jobs/{job}")["summary"]["state"] in FINAL
        page = client.get(f"/jobs/{job}/logs", {"after": after})
        for line in page["lines"]:
            yield LogChunk("", line["text"])
        after = page["next"]
        if not page["lines"]:
            if over:
                return
            time.sleep(POLL_S)


def service_logs(client: FleetClient, job: str, service: str) -> Iterator[LogChunk]:
    """What is kept of a service with the runs of a job on a server."""
    result = from_json(MultiRunJobResult, client.text(f"/jobs/{job}/result"), source=job)
    for run in result.runs:
        for name in (f"service-{service}.{stream}" for stream in STREAMS):
            digest = run.files.get(name)
            content = client.content(f"/artefacts/{digest}", missing_ok=True) if digest else None
            if content is not None:
                yield LogChunk(f"run {run.run_id + 1} {name}", content.decode(errors="replace"))

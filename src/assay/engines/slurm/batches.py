"""The batch jobs of a campaign as Slurm reports them, by job: how each one stands, why it failed, where it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.clock import iso
from assay.documents import to_json
from assay.engines.base import FailureReason, LogChunk
from assay.engines.collect import tail_of
from assay.engines.logs import LogFile, follow_logs, read_logs, refuse_unknown_service
from assay.engines.slurm.folder import BatchPlan, SharedFolder, SlurmCampaign, folder_of
from assay.engines.slurm.node.monitor import GROUP, NAME, reason
from assay.engines.slurm.plan import Group
from assay.engines.slurm.scheduler import WAITING, BatchState, failure_of, forgotten, is_final
from assay.engines.slurm.submission import read_submitted
from assay.errors import AssayError
from assay.monitoring.discovery import Life, lives
from assay.monitoring.monitor import MetricsOwner, joined, without
from assay.monitoring.scraper import read_parts
from assay.plan.job import FINAL, Job
from assay.report.result import read_job
from assay.run.records import RunOutcome
from assay.run.scratch import scratch_folder
from assay.spec.references import references
from assay.spec.slurm import MONITOR
from assay.store.store import Store
from assay.store.telemetry import FILE, Metrics


@dataclass(frozen=True, slots=True)
class CampaignBatches:
    """The batch jobs of a campaign at one moment."""

    folder: SharedFolder
    document: SlurmCampaign
    ids: Mapping[str, str]
    """Name of the sbatch → its number."""
    states: Mapping[str, BatchState]
    """Key of a batch job → its state."""
    places: Mapping[int, tuple[Group, int]]
    """Index of a job → its group, and its place there."""

    def key_of(self, job: Job) -> str:
        """What Slurm calls the batch job of a job; empty where it was never submitted."""
        return self._key(*self.places[job.index])

    def _key(self, group: Group, place: int) -> str:
        number = self.ids.get(group.name, "")
        return number if not number or self.document.batch_of(group.name).tasks is None else f"{number}_{place}"

    def state_of(self, job: Job) -> BatchState | None:
        """How a job stands; None where Slurm does not say."""
        return self.states.get(self.key_of(job))

    def is_running(self, index: int) -> bool:
        """Whether the batch job of a job has begun and not ended."""
        group, place = self.places[index]
        state = self.states.get(self._key(group, place))
        return state is not None and state.state not in WAITING and not is_final(state.state)

    def of(self, plan: BatchPlan) -> list[BatchState]:
        """How the batch jobs of one sbatch stand."""
        number = self.ids.get(plan.name)
        return [state for state in self.states.values() if state.id == number]

    def is_over(self, plan: BatchPlan) -> bool:
        """Whether an sbatch has ended for all that is known."""
        states = self.of(plan)
        return all(is_final(state.state) for state in states)

    def logs_of(self, job: Job) -> dict[str, Path]:
        """What Slurm wrote of a job."""
        group, _ = self.places[job.index]
        if not self.ids.get(group.name):
            return {}
        key = self.key_of(job)
        return {f"slurm.{stream}": self.folder.log(group.name, key, stream) for stream in ("out", "err")}

    def failure_reason(self, job: Job) -> FailureReason:
        """Why a job left no result."""
        group, _ = self.places[job.index]
        state = self.state_of(job)
        if state is None:
            key = self.key_of(job)
            return (
                forgotten(key)
                if key
                else FailureReason("slurm-failed", "its batch job was never submitted", "run it again")
            )
        log = tail_of(self.logs_of(job)["slurm.err"])
        reason = failure_of(state, self.document.batch_of(group.name).batch, log)
        return reason or FailureReason(
            "slurm-failed",
            f"the batch job {state.key} ended ({state.state}) and left no result in the shared folder",
            "look into its log with `assay logs`; see that the nodes can write to the shared folder",
        )

    def service_failure(self, plan: BatchPlan) -> FailureReason | None:
        """Why a service's batch job ended; None while it has not, or where nothing is known."""
        states = self.of(plan)
        if not states or not all(is_final(state.state) for state in states):
            return None
        return failure_of(
            states[0], plan.batch, tail_of(self.folder.log(plan.name, states[0].key, "err"))
        ) or FailureReason(
            "slurm-failed", f"the batch job {states[0].key} of the service {plan.service} ended", "look into its log"
        )

    def environment_of(self, job: Job) -> dict[str, JsonValue]:
        """What Slurm tells about a job and the services of its group."""
        group, _ = self.places[job.index]
        own: dict[str, JsonValue] = {"job": self.key_of(job), "group": group.name, **_facts(self.state_of(job))}
        services: dict[str, JsonValue] = {
            batch.service: {"job": self.ids.get(batch.name, ""), **_facts(next(iter(self.of(batch)), None))}
            for batch in self.document.services_of(group.name)
        }
        return {"slurm": {**own, **({"services": services} if services else {})}}


def _facts(state: BatchState | None) -> dict[str, JsonValue]:
    """The facts of a batch job that Slurm tells; those that it does not say are left out."""
    if state is None:
        return {"state": "not told"}
    waited = (
        (state.started_at - state.submitted_at).total_seconds() if state.started_at and state.submitted_at else None
    )
    facts: dict[str, JsonValue] = {
        "state": state.state,
        "reason": state.reason if state.reason not in ("", "None") else None,
        "node": state.node or None,
        "partition": state.partition or None,
        "submitted_at": iso(state.submitted_at) if state.submitted_at else None,
        "started_at": iso(state.started_at) if state.started_at else None,
        "waited_s": waited,
        "time_limit_s": state.time_limit_s,
        "requeues": state.requeues or None,
        "memory_max_bytes": state.memory_max_bytes,
    }
    return {name: value for name, value in facts.items() if value is not None}


def job_logs(store: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
    """What a job on Slurm or one of its services wrote, text by text."""
    if not follow:
        return read_logs(log_files(store, job, service))
    return follow_logs(lambda: log_files(store, job, service), lambda: _has_ended(store, job))


def log_files(store: Store, job: Job, service: str = "") -> tuple[LogFile, ...]:
    """The files that a job on a cluster writes, or a service that it uses."""
    folder = folder_of(store.folder, job.campaign)
    document = folder.read_campaign(SlurmCampaign)
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
        return tuple(LogFile(f"{MONITOR}.{stream}", folder.log(MONITOR, number, stream)) for stream in streams)
    names = [*(entry.name for entry in group.services), *([MONITOR] if document.monitored else [])]
    refuse_unknown_service(job, service, names, "its node starts them, and their logs are kept with its runs")
    own_logs = [
        LogFile(f"{service}.{stream}", folder.service_log(group.name, service, stream)) for stream in ("out", "err")
    ]
    batch = next((plan for plan in document.services_of(group.name) if plan.service == service), None)
    number = ids.get(batch.name, "") if batch is not None else ""
    if batch is None or not number:
        return tuple(own_logs)
    # What held the service says when it was ready and why it ended.
    held = [
        LogFile(f"{batch.name} slurm.{stream}", folder.log(batch.name, number, stream)) for stream in ("out", "err")
    ]
    return (*own_logs, *held)


def _has_ended(store: Store, job: Job) -> bool:
    state = store.job(job.id).state
    return state in FINAL or (folder_of(store.folder, job.campaign).out(job.index) / "result.json").is_file()


def join_metrics(store: Store, folder: SharedFolder, document: SlurmCampaign, notify: Callable[[str], None]) -> int:
    """Put the metrics of a campaign to its runs; return how many runs have some.

    A job whose runs have them already is left alone, so that this can be done again.
    """
    if not document.monitored:
        return 0
    try:
        metrics = read_parts(folder.metrics)
    except AssayError as problem:
        metrics = None
        notify(f"the metrics of the campaign cannot be read: {problem.problem.message}")
    why = _why_none(folder) if metrics is None else ""
    if why:
        notify(f"the campaign has no metrics: {why}")
    there = lives(folder.discovery)
    _, stored = store.campaign(document.campaign)
    with scratch_folder() as scratch:
        return sum(
            _join(store, document, stored_job.job, read_job(stored_job, store.runs), metrics, why, there, scratch)
            for stored_job in stored
            if stored_job.result is not None
        )


def _why_none(folder: SharedFolder) -> str:
    if folder.failed_service(GROUP, NAME).is_file():
        return f"the monitor failed: {reason(folder)}"
    if not folder.service(GROUP, NAME).is_file():
        return "the monitor never began"
    return "the monitor was ended before it wrote anything out"


def _join(
    store: Store,
    document: SlurmCampaign,
    job: Job,
    result: MultiRunJobResult,
    metrics: Metrics | None,
    why: str,
    there: tuple[Life, ...],
    scratch: Path,
) -> int:
    """One job's runs with their metrics, kept again."""
    bare = [run for run in result.runs if FILE not in run.files and FILE not in run.absent]
    if not bare:
        return 0
    group, _ = document.place_of(job.index)
    node = result.environment.get("slurm")
    whose = MetricsOwner(
        job.id,
        group=group.name,
        node=str(node.get("node", "")) if isinstance(node, dict) else "",
        secrets=tuple(references(job.definition.model_dump())),
    )
    own = scratch / str(job.index)
    own.mkdir()
    stored_runs = {}
    for run in bare:
        outcome = RunOutcome(
            run,
            store.samples.read(run.samples) if run.samples else (),
            {name: store.artefacts.at_hand(digest) for name, digest in run.files.items()},
        )
        whole = without(outcome, why) if metrics is None else joined(outcome, metrics, whose, own, lives=there)
        stored_runs[run.run_id] = store.keep_run(job.id, whole)
    runs = tuple(stored_runs.get(run.run_id, run) for run in result.runs)
    store.replace_result(job.id, verdict=result.verdict, result=to_json(replace(result, runs=runs)))
    return sum(FILE in run.files for run in stored_runs.values())

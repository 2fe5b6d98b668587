"""The local engine: a campaign on this machine, one job after another, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import Clock
from assay.engines.collect import Termination, collect
from assay.engines.status import note_findings, note_unused
from assay.errors import AssayError
from assay.exec.folder import ResultFolder
from assay.exec.machine import surroundings
from assay.exec.runner import JobHooks, JobRunner, label_of
from assay.hardware.fitness.session import DeviceSession
from assay.monitoring.monitor import Monitor, monitored
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, campaign_state
from assay.plan.plan import Plan, refuse_parts_in_turn, refuse_unsupported
from assay.report.live import View
from assay.report.reading import read_campaign, read_job
from assay.run.capabilities import profile_for
from assay.run.inputs import plan_of
from assay.run.records import RunOutcome, SingleRunResult
from assay.run.scratch import scratch_folder, sweep_abandoned
from assay.spec.load import Loaded
from assay.store.store import Store


def run_here(
    loaded: Loaded, store: Store, view: View, clock: Clock, devices: DeviceSession, *, fresh: bool
) -> CampaignRecord:
    """Measure a benchmark on this machine; an interrupted campaign of the same plan goes on unless `fresh`."""
    refuse_unsupported(loaded.benchmark)
    note_unused(loaded.benchmark, view)
    runner = JobRunner(view, devices, clock)  # now: it looks at other processes while the campaign is planned
    sweep_abandoned()
    plan = plan_of(loaded)
    refuse_parts_in_turn(plan.jobs)
    plan = _submit(plan, loaded, store, view, clock, fresh=fresh)
    campaign = plan.jobs[0].campaign
    try:
        with monitored(loaded.benchmark, plan.jobs, view.note) as monitor:
            _measure(plan, runner, _Recorder(store, monitor, clock), view)
    except BaseException:
        _interrupted(campaign, store, view, clock)
        raise
    finally:
        view.close()
    record = read_campaign(store, campaign)
    state = campaign_state(Counter(job.state for job in record.jobs))
    store.end_campaign(campaign, state, clock)
    note_findings(store, record, view, clock)
    return replace(record, state=state)


def _submit(plan: Plan, loaded: Loaded, store: Store, view: View, clock: Clock, *, fresh: bool) -> Plan:
    """Continue an interrupted campaign of the same plan, or begin a new one."""
    here = surroundings()
    resumed = None if fresh else store.take_over_interrupted(plan.digest, here)
    if fresh:
        store.abandon_interrupted(plan.digest)
    if resumed is None:
        plan = store.create_campaign(plan, loaded.source.document, loaded.benchmark.labels, here, clock)
    else:
        plan = plan.submitted_as(resumed)
    runs = sum(job.definition.measure.runs for job in plan.jobs)
    note = "" if resumed is None else "resumed: what was measured before the interruption is kept"
    view.campaign(plan.jobs[0].campaign, len(plan.jobs), runs, note)
    return plan


def _measure(plan: Plan, runner: JobRunner, recorder: _Recorder, view: View) -> None:
    """Measure the jobs that have not ended, each through the door of `exec` and the collection of every engine."""
    store, profile = recorder.store, profile_for(plan.jobs)
    for job in plan.jobs:
        view.job(job.id, label_of(job), job.index, len(plan.jobs))
        if store.job_state(job.id) in FINAL:
            view.job_done(read_job(store.job(job.id), store.runs))
            continue
        with scratch_folder() as path:
            # Samples and files go where they will stay; the folder itself holds documents alone, and may be lost.
            folder = ResultFolder(path, store.samples, store.artefacts, durable=False)
            folder.restore(store.runs(job.id))
            runner.measure(job, folder, profile, hooks=recorder)
            view.job_done(recorder.collect(job, path))


@dataclass(frozen=True, slots=True)
class _Scratch:
    """The result folder of the job that is measured now."""

    path: Path

    def out(self, index: int) -> Path:  # noqa: ARG002  (there is one at a time)
        return self.path


class _Recorder(JobHooks):
    """Takes each run into the store as soon as it has ended, with what was scraped meanwhile."""

    def __init__(self, store: Store, monitor: Monitor, clock: Clock) -> None:
        self.store = store
        self._monitor = monitor
        self._clock = clock
        self._began_s: float | None = None

    @contextmanager
    def measuring(self, job: Job) -> Iterator[None]:
        self._began_s = self._clock.monotonic_s()
        self.store.move_job(job.id, "start")
        with self._monitor.job(job):
            yield

    def enrich(self, job: Job, outcome: RunOutcome) -> RunOutcome:
        return self._monitor.joined(job, outcome)

    def kept(self, job: Job, run: SingleRunResult) -> None:
        self.store.record_run(job.id, run)

    def collect(self, job: Job, path: Path) -> MultiRunJobResult:
        """End the job in the store with the result that lies in its folder."""
        began_s, self._began_s = self._began_s, None
        elapsed_s = None if began_s is None else self._clock.monotonic_s() - began_s  # None: it was refused
        ended = Termination(None, None, {}, {}, elapsed_s=elapsed_s)
        return collect(self.store, _Scratch(path), job, ended, self._clock.utc())


def _interrupted(campaign: str, store: Store, view: View, clock: Clock) -> None:
    """Say that the campaign can go on later; the store may be the very thing that failed, then nothing can."""
    try:
        store.end_campaign(campaign, "interrupted", clock)
    except AssayError:
        return
    view.note(f"campaign {campaign} is interrupted; the same command continues it")

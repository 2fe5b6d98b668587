"""The local engine: a campaign on this machine, one job after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import Clock
from assay.documents import to_json
from assay.engines.notes import note_findings, note_unused
from assay.errors import AssayError, MeasureError
from assay.exec.document import refusal
from assay.exec.machine import require_needs, surroundings
from assay.hardware.environment import UsageSample
from assay.hardware.fitness.session import DeviceSession, JobEnvironment
from assay.monitoring.local import Monitor, Nobody, monitored
from assay.place.needs import Profile, missing
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, campaign_state
from assay.plan.plan import Plan
from assay.plan.support import refuse_parts_in_turn, refuse_unsupported
from assay.report.live import View
from assay.report.reading import read_campaign, read_job
from assay.report.wording import job_label
from assay.run.capabilities import profile_for
from assay.run.execute import execute_job
from assay.run.inputs import plan_of
from assay.run.records import RunOutcome
from assay.run.scratch import sweep_abandoned
from assay.spec.load import Loaded
from assay.store.location import cache_folder
from assay.store.store import Store


def run_here(
    loaded: Loaded, store: Store, view: View, clock: Clock, around: DeviceSession, *, fresh: bool
) -> CampaignRecord:
    """Measure a benchmark on this machine; an interrupted campaign of the same plan goes on unless `fresh`."""
    return _Campaign(loaded, store, view, clock, around).run(fresh=fresh)


class _Campaign:
    """One campaign on this machine, from submission to its last job."""

    def __init__(self, loaded: Loaded, store: Store, view: View, clock: Clock, around: DeviceSession) -> None:
        self.loaded = loaded
        self.store = store
        self.view = view
        self.clock = clock
        self.around = around
        self.look = UsageSample()
        self.monitor: Monitor = Nobody()

    def run(self, *, fresh: bool) -> CampaignRecord:
        refuse_unsupported(self.loaded.benchmark)
        note_unused(self.loaded.benchmark, self.view)
        sweep_abandoned()
        planned = plan_of(self.loaded)
        refuse_parts_in_turn(planned.jobs)
        plan = self._submit(planned, fresh=fresh)
        profile = profile_for(plan.jobs)
        campaign = plan.jobs[0].campaign
        try:
            with monitored(self.loaded.benchmark, plan.jobs, self.view.note) as self.monitor:
                for job in plan.jobs:
                    self._job(job, len(plan.jobs), profile)
        except BaseException:
            self._interrupted(campaign)
            raise
        finally:
            self.view.close()
        record = read_campaign(self.store, campaign)
        state = campaign_state(Counter(job.state for job in record.jobs))
        self.store.end_campaign(campaign, state, self.clock)
        note_findings(self.store, record, self.view, self.clock)
        return replace(record, state=state)

    def _submit(self, plan: Plan, *, fresh: bool) -> Plan:
        """Continue an interrupted campaign of the same plan, or begin a new one."""
        here = surroundings()
        resumed = None if fresh else self.store.take_over_interrupted(plan.digest, here)
        if fresh:
            self.store.abandon_interrupted(plan.digest)
        if resumed is None:
            benchmark = self.loaded.benchmark
            plan = self.store.create_campaign(plan, self.loaded.source.document, benchmark.labels, here, self.clock)
        else:
            plan = plan.submitted_as(resumed)
        runs = sum(job.definition.measure.runs for job in plan.jobs)
        note = "" if resumed is None else "resumed: what was measured before the interruption is kept"
        self.view.campaign(plan.jobs[0].campaign, len(plan.jobs), runs, note)
        return plan

    def _job(self, job: Job, of: int, profile: Profile) -> None:
        before = self.store.job(job.id)
        label = job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True))
        self.view.job(job.id, label, job.index, of)
        if before.state in FINAL:
            self.view.job_done(read_job(before, self.store.runs))
            return
        refused = missing(job, profile)
        with self.around.refused(job, self.look) if refused else self.around.job(job, label, self.look) as surrounding:
            self._measure(job, profile, surrounding)
        self.look = UsageSample()  # for the next job

    def _measure(self, job: Job, profile: Profile, surrounding: JobEnvironment) -> None:
        start_s = self.clock.monotonic_s()
        self.store.move_job(job.id, "start")
        refused = self._place(job, profile)
        result = _judged(job, (*self.store.outcomes(job.id), *refused), surrounding.ended())
        self.store.end_job(
            job.id,
            "finish" if result.state == "done" else "fail",
            verdict=result.verdict,
            result=to_json(result),
            seconds=self.clock.monotonic_s() - start_s,
        )
        self.view.job_done(result)

    def _place(self, job: Job, profile: Profile) -> tuple[RunOutcome, ...]:
        """Have the job measured; a refusal becomes a record of why."""
        try:
            require_needs(job, profile)
            self._execute(job)
        except MeasureError as problem:
            if problem.problem.code in ("store", "samples", "disk"):
                raise  # results cannot be kept: going on would lose more
            return (refusal(problem, self.clock.utc()),)
        return ()

    def _execute(self, job: Job) -> None:
        with self.monitor.job(job):
            execute_job(
                job,
                cache=cache_folder(),
                clock=self.clock,
                watch=self.view,
                keep=lambda outcome: self._keep(job, outcome),
                before=self.store.runs(job.id),
            )

    def _keep(self, job: Job, outcome: RunOutcome) -> None:
        self.store.keep_run(job.id, self.monitor.joined(job, outcome))

    def _interrupted(self, campaign: str) -> None:
        """Say that the campaign can go on later; the store may be the very thing that failed, then nobody can."""
        try:
            self.store.end_campaign(campaign, "interrupted", self.clock)
        except AssayError:
            return
        self.view.note(f"campaign {campaign} is interrupted; the same command continues it")


def _judged(job: Job, outcomes: tuple[RunOutcome, ...], surrounding: Mapping[str, JsonValue]) -> MultiRunJobResult:
    from assay.analyse.judge import judge  # it brings numpy, which a campaign without results yet does not need

    return judge(job, outcomes, surrounding, planned_runs=job.definition.measure.runs)

"""The whole path on one machine: spec → plan → place → run → store → analyse. The one place that knows all stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay import __version__
from assay.analyse.judge import judge
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.documents import from_json, to_json
from assay.errors import AssayError, MeasureError
from assay.hardware.environment import environment, machine_state, packages
from assay.hardware.machine import machine_id
from assay.hardware.profile import local_profile
from assay.place.engines.local import LocalEngine
from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL
from assay.plan.plan import Plan, make_plan
from assay.report.live import SilentView, View
from assay.report.wording import job_label
from assay.run.execute import execute_job
from assay.run.fingerprints import fingerprints
from assay.run.records import Failure, RunOutcome, SampleSet, SingleRunResult
from assay.run.scratch import sweep_abandoned
from assay.spec.benchmark import Benchmark
from assay.spec.load import Loaded, load
from assay.store.location import cache_folder, store_folder
from assay.store.store import Store, StoredJob

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """The results of one campaign, with a way back to every sample."""

    record: CampaignRecord
    store: Path

    @property
    def jobs(self) -> tuple[MultiRunJobResult, ...]:
        """The results, one per job."""
        return self.record.jobs

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]:
        """Every sample of one run."""
        store = Store(self.store)
        try:
            return store.samples_of(job, run)
        finally:
            store.close()

    def to_json(self) -> str:
        """The result document."""
        from assay.report.document import result_json

        return result_json(self.record)

    def to_csv(self) -> str:
        """One row per job; the first 25 columns are SARK's."""
        from assay.report.table import render_csv

        return render_csv(self.record)

    def to_markdown(self) -> str:
        """A report in Markdown."""
        from assay.report.markdown import render_markdown

        return render_markdown(self.record)

    def to_html(self) -> str:
        """A report with pictures in one self-contained file."""
        from assay.report.html import render_html

        return render_html(self.record, self.samples)

    def __str__(self) -> str:
        from assay.report.terminal import render_table

        return render_table(self.record)

    def _repr_html_(self) -> str:
        from assay.report.html import fragment_html

        return fragment_html(self.record)


def run(
    benchmark: str | Path | Mapping[str, Any] | Benchmark | Loaded,
    *,
    store: str | Path | None = None,
    fresh: bool = False,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> CampaignResult:
    """Run a benchmark on this machine and return its results.

    Args:
        benchmark: a file, a mapping of the same shape, a `Benchmark`, or one that was loaded before.
        store: folder that results are kept in; the user's own by default.
        fresh: measure everything again, even where an interrupted campaign could go on.
        view: is told how it goes; nobody by default.
        clock: tells the time.

    Raises:
        SpecError: if the benchmark is wrong, with all its problems.
        StoreError: if results cannot be kept.
    """
    loaded = benchmark if isinstance(benchmark, Loaded) else load(benchmark)
    place = store_folder(store)
    kept = Store(place)
    try:
        record = _Campaign(loaded, kept, view or SilentView(), clock).run(fresh=fresh)
    finally:
        kept.close()
    return CampaignResult(record, place)


def plan_of(loaded: Loaded) -> Plan:
    """The plan of a benchmark, with the content of its files hashed in."""
    return make_plan(loaded, lambda definition: fingerprints(definition, loaded.base))


def read_campaign(store: Store, campaign: str) -> CampaignRecord:
    """A campaign's results as they are now, finished or not."""
    summary, jobs = store.campaign(campaign)
    return CampaignRecord(
        campaign=summary.id,
        benchmark=summary.benchmark,
        created_at=summary.created_at,
        state=summary.state,
        jobs=tuple(_result_of(stored, store) for stored in jobs),
        labels=summary.labels,
        assay_version=__version__,
    )


def surroundings() -> str:
    """Machine and software in one hash: runs measured in different ones are never joined into one job."""
    return content_hash([machine_id(), packages()])


class _Campaign:
    """One campaign on this machine, from submission to its last job."""

    def __init__(self, loaded: Loaded, store: Store, view: View, clock: Clock) -> None:
        self.loaded = loaded
        self.store = store
        self.view = view
        self.clock = clock
        self.engine = LocalEngine(local_profile(), self._execute)

    def run(self, *, fresh: bool) -> CampaignRecord:
        _refuse_unsupported(self.loaded.benchmark)
        self._note_unused()
        sweep_abandoned()
        plan = self._submit(plan_of(self.loaded), fresh=fresh)
        campaign = plan.jobs[0].campaign
        try:
            for job in plan.jobs:
                self._job(job, len(plan.jobs))
        except BaseException:
            self._interrupted(campaign)
            raise
        finally:
            self.view.close()
        record = read_campaign(self.store, campaign)
        state = "done" if any(job.state == "done" for job in record.jobs) else "failed"
        self.store.end_campaign(campaign, state, self.clock)
        return replace(record, state=state)

    def _note_unused(self) -> None:
        """Say which keys of the file a run on this machine does not act on."""
        benchmark = self.loaded.benchmark
        unused = [name for name in ("schedule", "alerts") if getattr(benchmark, name)]
        if unused:
            self.view.note(f"{' and '.join(unused)} are kept with the campaign; a local run does not act on them")

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

    def _job(self, job: Job, of: int) -> None:
        _, stored = self.store.campaign(job.campaign)
        before = next(one for one in stored if one.job.index == job.index)
        definition = job.definition.model_dump(mode="json", exclude_defaults=True)
        self.view.job(job.id, job_label(job.point, definition), job.index, of)
        if before.state in FINAL:
            self.view.job_done(_result_of(before, self.store))
            return
        start_s = self.clock.monotonic_s()
        self.store.move_job(job.id, "start")
        surrounding = environment(Path(job.base)) | {"before": machine_state()}
        refused = self._place(job)
        surrounding |= {"after": machine_state()}
        result = _judged(job, (*self.store.outcomes(job.id), *refused), surrounding)
        self.store.end_job(
            job.id,
            "finish" if result.state == "done" else "fail",
            verdict=result.verdict,
            result=to_json(result),
            seconds=self.clock.monotonic_s() - start_s,
        )
        self.view.job_done(result)

    def _place(self, job: Job) -> tuple[RunOutcome, ...]:
        """Have the job measured; a refusal becomes a record of why."""
        try:
            self.engine.place(job)
        except MeasureError as problem:
            if problem.problem.code in ("store", "samples", "disk"):
                raise  # results cannot be kept: going on would lose more
            return (refusal(problem, self.clock.utc()),)
        return ()

    def _execute(self, job: Job) -> None:
        execute_job(
            job,
            cache=cache_folder(),
            clock=self.clock,
            watch=self.view,
            keep=lambda outcome: self._keep(job, outcome),
            before=self.store.runs(job.id),
        )

    def _keep(self, job: Job, outcome: RunOutcome) -> None:
        self.store.keep_run(job.id, outcome)

    def _interrupted(self, campaign: str) -> None:
        """Say that the campaign can go on later; the store may be the very thing that failed, then nobody can."""
        try:
            self.store.end_campaign(campaign, "interrupted", self.clock)
        except AssayError:
            return
        self.view.note(f"campaign {campaign} is interrupted; the same command continues it")


def refusal(problem: AssayError, now: datetime) -> RunOutcome:
    """The record of a job that no machine could take."""
    said = problem.problem
    failure = Failure(said.code, said.message, phase="prepare", try_=said.try_)
    return RunOutcome(SingleRunResult(0, True, iso(now), iso(now), 0.0, error=failure))


def _judged(job: Job, outcomes: tuple[RunOutcome, ...], surrounding: Mapping[str, JsonValue]) -> MultiRunJobResult:
    return judge(job, outcomes, surrounding, planned_runs=job.definition.measure.runs)


def _result_of(stored: StoredJob, store: Store) -> MultiRunJobResult:
    """A job's result, or what is known of one that has none yet."""
    if stored.result is not None:
        return from_json(MultiRunJobResult, stored.result, source=stored.job.id)
    job = stored.job
    runs = store.runs(job.id)
    return MultiRunJobResult(
        job=job.id, digest=job.digest, index=job.index, point=job.point, state=stored.state, verdict=None,
        checks=(), gates=(), metrics={}, runs=runs, total_runs=job.definition.measure.runs,
        successful_runs=sum(run.error is None for run in runs), failed_runs=sum(run.error is not None for run in runs),
        cold_start={}, environment={}, definition=job.definition.model_dump(mode="json", exclude_defaults=True),
    )  # fmt: skip


def _refuse_unsupported(benchmark: Benchmark) -> None:
    if benchmark.services:
        raise MeasureError(
            f"services ({', '.join(benchmark.services)}) are not started by this installation",
            code="services",
            try_="start them yourself and remove services from the file",
        )
    if benchmark.place.engine != "local":
        raise MeasureError(
            f"place.engine is {benchmark.place.engine!r}; this installation runs jobs on the local machine only",
            code="engine",
            try_="set place.engine: local, or leave place out",
        )

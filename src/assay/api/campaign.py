"""The whole path: spec → plan → place → run → store → analyse. The one place that knows all stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.documents import to_json
from assay.engines.local import LocalEngine
from assay.errors import AssayError, MeasureError
from assay.hardware.environment import Look, packages
from assay.hardware.fitness.around import Around, Surrounding
from assay.hardware.fitness.lock import mode_from
from assay.hardware.machine import machine_id
from assay.monitoring.local import Monitor, Nobody, monitored
from assay.place.needs import missing
from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, campaign_state
from assay.plan.plan import Plan, make_plan
from assay.plan.support import refuse_parts_in_turn, refuse_unsupported
from assay.report.live import SilentView, View
from assay.report.reading import read_campaign, read_job
from assay.report.wording import job_label
from assay.run.capabilities import profile_for
from assay.run.execute import execute_job
from assay.run.fingerprints import fingerprints
from assay.run.records import Failure, RunOutcome, SampleSet, SingleRunResult
from assay.run.scratch import sweep_abandoned
from assay.spec.benchmark import Benchmark
from assay.spec.load import Loaded, load
from assay.store.location import cache_folder, store_folder
from assay.store.store import Store

if TYPE_CHECKING:
    from datetime import datetime

    from assay.engines.base import FollowOptions
    from assay.store.telemetry import Recording

__all__ = [
    "CampaignResult",
    "kept_result",
    "note_findings",
    "plan_of",
    "read_campaign",
    "refusal",
    "run",
    "surroundings",
]


def _no_file(_job: str, _run: int, _name: str) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """The results of one campaign, with a way back to every sample."""

    record: CampaignRecord
    address: str
    """Where it is kept: the folder of a store, or the URL of a server."""
    read_samples: Callable[[str, int], tuple[SampleSet, ...]] = field(repr=False)
    read_file: Callable[[str, int, str], bytes | None] = field(default=_no_file, repr=False)

    @property
    def jobs(self) -> tuple[MultiRunJobResult, ...]:
        """The results, one per job."""
        return self.record.jobs

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]:
        """Every sample of one run."""
        return self.read_samples(job, run)

    def file(self, job: str, run: int, name: str) -> bytes | None:
        """A file that a run left, such as `outputs.jsonl.gz`; None where it left none of that name."""
        return self.read_file(job, run, name)

    def telemetry(self, job: str, run: int) -> Recording | None:
        """What another process saw of one run, in columns; None where nobody looked."""
        from assay.run.probes.job import FILE
        from assay.store.telemetry import read_telemetry

        content = self.file(job, run, FILE)
        return None if content is None else read_telemetry(content)

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

        return render_html(self.record, self.samples, self.file)

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
    server: str | None = None,
    lock: str | None = None,
    control: bool = True,
    manner: FollowOptions | None = None,
    objects: str | None = None,
) -> CampaignResult:
    """Run a benchmark on this machine, on a server's fleet or on a cluster, and return its results.

    Args:
        benchmark: a file, a mapping of the same shape, a `Benchmark`, or one that was loaded before.
        store: folder that results are kept in; the user's own by default.
        fresh: measure everything again, even where an interrupted campaign could go on.
        view: is told how it goes; nobody by default.
        clock: tells the time.
        server: URL of a server whose agents measure; its token is read from ASSAY_TOKEN. Of a benchmark on a cluster
            it is told how it goes.
        lock: what to do about a device on which somebody else measures: `wait`, `try` (go on beside it; a check then
            fails) or `off`; from ASSAY_LOCK, else `wait`, when left out.
        control: whether the control workload is timed, where the benchmark has it.
        manner: on a cluster, whether to stay until the end and what Ctrl-C means.
        objects: object store that samples and files also go to; from ASSAY_OBJECTS, else as the store remembers it.

    Raises:
        SpecError: if the benchmark is wrong, with all its problems.
        StoreError: if results cannot be kept.
    """
    loaded = benchmark if isinstance(benchmark, Loaded) else load(benchmark)
    clustered = loaded.benchmark.place.on_cluster
    if server is not None and not clustered:
        from assay.engines.fleet.campaign import run_on

        return run_on(server, loaded, view or SilentView())
    told = view or SilentView()
    mode, place = mode_from(lock), store_folder(store)
    kept = Store(place, objects=objects)
    try:
        if clustered:
            manner = _telling(server, manner)
            return _on_cluster(loaded, kept, told, clock, fresh=fresh, lock=lock, control=control, manner=manner)
        around = Around(mode, cache_folder(), told.waiting, control=control)
        record = _Campaign(loaded, kept, told, clock, around).run(fresh=fresh)
    finally:
        kept.close()
    return kept_result(place, record)


def _on_cluster(
    loaded: Loaded,
    store: Store,
    view: View,
    clock: Clock,
    *,
    fresh: bool,
    lock: str | None,
    control: bool,
    manner: FollowOptions | None,
) -> CampaignResult:
    if loaded.benchmark.place.engine == "kubernetes":
        from assay.engines.kubernetes.campaign import run_on_kubernetes as follow
    else:
        from assay.engines.slurm.campaign import run_on_cluster as follow
    record = follow(loaded, store, view, clock, fresh=fresh, lock=lock, control=control, manner=manner)
    return kept_result(store.folder, record)


def _telling(server: str | None, manner: FollowOptions | None) -> FollowOptions | None:
    if server is None:
        return manner
    from assay.engines.base import FollowOptions as How
    from assay.place.fleet.client import FleetClient, read_token

    return replace(manner or How(), server=FleetClient(server, read_token()))


def kept_result(place: Path, record: CampaignRecord) -> CampaignResult:
    """Results with a way back to every sample and file in a store.

    Args:
        place: folder of the store.
        record: the results.
    """
    return CampaignResult(
        record,
        str(place),
        lambda job, number: _samples(place, job, number),
        lambda job, number, name: _file(place, job, number, name),
    )


def _samples(folder: Path, job: str, run: int) -> tuple[SampleSet, ...]:
    store = Store(folder)
    try:
        return store.samples_of(job, run)
    finally:
        store.close()


def _file(folder: Path, job: str, run: int, name: str) -> bytes | None:
    store = Store(folder)
    try:
        path = store.file_of(job, run, name)
        return None if path is None else path.read_bytes()
    finally:
        store.close()


def note_unused(benchmark: Benchmark, view: View, run: str = "a local run") -> None:
    """Say which keys of the file a run without a server does not act on.

    Args:
        benchmark: the file.
        view: is told.
        run: what kind of run it is.
    """
    if benchmark.schedule:
        view.note(f"schedule is kept with the campaign; {run} does not act on it")
    if benchmark.alerts:
        view.note(f"alerts are listed by `assay alerts`; {run} sends no messages")


def plan_of(loaded: Loaded) -> Plan:
    """The plan of a benchmark, with the content of its files hashed in."""
    return make_plan(loaded, lambda definition: fingerprints(definition, loaded.base))


def surroundings() -> str:
    """Machine and software in one hash: runs measured in different ones are never joined into one job."""
    return content_hash([machine_id(), packages()])


class _Campaign:
    """One campaign on this machine, from submission to its last job."""

    def __init__(self, loaded: Loaded, store: Store, view: View, clock: Clock, around: Around) -> None:
        self.loaded = loaded
        self.store = store
        self.view = view
        self.clock = clock
        self.around = around
        self.look = Look()
        self.monitor: Monitor = Nobody()

    def run(self, *, fresh: bool) -> CampaignRecord:
        refuse_unsupported(self.loaded.benchmark)
        note_unused(self.loaded.benchmark, self.view)
        sweep_abandoned()
        planned = plan_of(self.loaded)
        refuse_parts_in_turn(planned.jobs)
        plan = self._submit(planned, fresh=fresh)
        engine = LocalEngine(profile_for(plan.jobs), self._execute)
        campaign = plan.jobs[0].campaign
        try:
            with monitored(self.loaded.benchmark, plan.jobs, self.view.note) as self.monitor:
                for job in plan.jobs:
                    self._job(job, len(plan.jobs), engine)
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

    def _job(self, job: Job, of: int, engine: LocalEngine) -> None:
        before = self.store.job(job.id)
        label = job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True))
        self.view.job(job.id, label, job.index, of)
        if before.state in FINAL:
            self.view.job_done(read_job(before, self.store.runs))
            return
        refused = missing(job, engine.profile)
        with self.around.refused(job, self.look) if refused else self.around.job(job, label, self.look) as surrounding:
            self._measure(job, engine, surrounding)
        self.look = Look()  # for the next job

    def _measure(self, job: Job, engine: LocalEngine, surrounding: Surrounding) -> None:
        start_s = self.clock.monotonic_s()
        self.store.move_job(job.id, "start")
        refused = self._place(job, engine)
        result = _judged(job, (*self.store.outcomes(job.id), *refused), surrounding.ended())
        self.store.end_job(
            job.id,
            "finish" if result.state == "done" else "fail",
            verdict=result.verdict,
            result=to_json(result),
            seconds=self.clock.monotonic_s() - start_s,
        )
        self.view.job_done(result)

    def _place(self, job: Job, engine: LocalEngine) -> tuple[RunOutcome, ...]:
        """Have the job measured; a refusal becomes a record of why."""
        try:
            engine.place(job)
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


def note_findings(store: Store, record: CampaignRecord, view: View, clock: Clock) -> None:
    """Take results into their series, and say what changed; the results are kept, whatever comes of it."""
    from assay.alert.ingest import observe
    from assay.report.series import finding_sentence

    try:
        found = observe(store, record, clock)
    except AssayError as problem:
        view.note(f"the series were not updated: {problem.problem.message}; try `assay series collect`")
        return
    for one in found:
        if one.state == "open" and one.finding.answer != "cannot tell":
            view.note(finding_sentence(one))


def refusal(problem: AssayError, now: datetime) -> RunOutcome:
    """The record of a job that no machine could take."""
    said = problem.problem
    failure = Failure(said.code, said.message, phase="prepare", try_=said.try_)
    return RunOutcome(SingleRunResult(0, True, iso(now), iso(now), 0.0, error=failure))


def _judged(job: Job, outcomes: tuple[RunOutcome, ...], surrounding: Mapping[str, JsonValue]) -> MultiRunJobResult:
    from assay.analyse.judge import judge  # it brings numpy, which a campaign without results yet does not need

    return judge(job, outcomes, surrounding, planned_runs=job.definition.measure.runs)

"""One job measured on this machine into its result folder: the code that every engine runs where the work is done."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import NOT_KEPT, AssayError, MeasureError
from assay.exec.folder import ResultFolder
from assay.exec.machine import require_needs
from assay.hardware.environment import UsageSample
from assay.hardware.fitness.session import DeviceSession, JobEnvironment
from assay.place.needs import Profile, missing
from assay.plan.job import Job
from assay.report.live import View
from assay.report.wording import label_of
from assay.run.execute import execute_job
from assay.run.load.barrier import Meeting
from assay.run.records import Failure, RunOutcome, SingleRunResult, unmeasured_run
from assay.run.services import RunningService
from assay.store.location import cache_folder

if TYPE_CHECKING:
    from assay.analyse.stopping import RunsUntilPrecise


class JobHooks:
    """What else happens while a job is measured: nothing, unless a method is overridden."""

    def measuring(self, job: Job) -> AbstractContextManager[None]:  # noqa: ARG002  (there is nothing to do)
        """Around the runs of a job, once it holds its devices."""
        return nullcontext()

    def enrich(self, job: Job, outcome: RunOutcome) -> RunOutcome:  # noqa: ARG002
        """A run as it is to be kept, such as with metrics that something else scraped meanwhile."""
        return outcome

    def kept(self, job: Job, run: SingleRunResult) -> None:
        """A run lies in the result folder."""


class _RunRule:
    """Keeps the runs of a job, and says whether another is needed."""

    def __init__(self, job: Job, folder: ResultFolder) -> None:
        self._job, self._folder = job, folder
        self._rule: RunsUntilPrecise | None = None

    def keep(self, outcome: RunOutcome) -> SingleRunResult:
        if self._rule is not None:
            self._rule.add(outcome)
        return self._folder.keep(outcome)

    def more(self) -> bool:
        if not self._job.definition.adds_runs:
            return False
        if self._rule is None:  # the runs so far, those of an earlier process among them
            from assay.analyse.stopping import RunsUntilPrecise  # it brings numpy, as `judge` does

            self._rule = RunsUntilPrecise(self._job)
            for outcome in self._folder.outcomes(self._job):
                self._rule.add(outcome)
        return self._rule.more()


class JobRunner:
    """Measures jobs one after another: holds their devices, looks at the machine before and after, judges the runs."""

    def __init__(self, view: View, devices: DeviceSession, clock: Clock = SYSTEM_CLOCK) -> None:
        self._view = view
        self._devices = devices
        self._clock = clock
        self._usage = UsageSample()  # of other processes, until the first job begins

    def measure(
        self,
        job: Job,
        folder: ResultFolder,
        profile: Profile,
        *,
        hooks: JobHooks | None = None,
        services: Mapping[str, RunningService] | None = None,
        meeting: Meeting | None = None,
    ) -> MultiRunJobResult:
        """Measure the runs of a job that its folder lacks, and write its result there.

        Args:
            profile: this machine; a job that needs more is refused, with a result that says so.
            services: those of the job's services that already run, on this machine or another; they are not started.
            meeting: where the machines that share the job's load meet before each run.
        """
        hooks = hooks or JobHooks()
        rule = _RunRule(job, folder)
        with self._environment(job, profile) as environment:
            problem = None
            try:
                require_needs(job, profile)
                with hooks.measuring(job):
                    execute_job(
                        job,
                        cache=cache_folder(),
                        clock=self._clock,
                        watch=self._view,
                        keep=lambda outcome: hooks.kept(job, rule.keep(hooks.enrich(job, outcome))),
                        before=folder.take_up(job),
                        services=services,
                        meeting=meeting,
                        more=rule.more,
                    )
            except MeasureError as refused:
                if refused.problem.code in NOT_KEPT:
                    raise
                problem = refused
            result = self._judge(job, folder, environment.ended(), problem)
        self._usage = UsageSample()  # for the next job
        return result

    def refuse(self, job: Job, folder: ResultFolder, problem: AssayError) -> MultiRunJobResult:
        """Write the result of a job that cannot be begun here; runs that were measured before stay."""
        with self._devices.refused(job, self._usage) as environment:
            return self._judge(job, folder, environment.ended(), problem)

    def _environment(self, job: Job, profile: Profile) -> AbstractContextManager[JobEnvironment]:
        if missing(job, profile):
            return self._devices.refused(job, self._usage)
        return self._devices.job(job, label_of(job), self._usage)

    def _judge(
        self, job: Job, folder: ResultFolder, environment: Mapping[str, JsonValue], problem: AssayError | None
    ) -> MultiRunJobResult:
        """Conclude from all runs in the folder, and from the one that a problem prevented."""
        outcomes = folder.outcomes(job)
        if problem is not None:
            run_ids = [outcome.result.run_id for outcome in outcomes]
            prevented = unmeasured_run(Failure.of(problem.problem), run_ids, self._clock.utc())
            outcomes.insert(prevented.run_id, RunOutcome(prevented))  # its number is the first that is free
        from assay.analyse.judge import judge  # it brings numpy, which nothing needs before the first run has ended

        result = judge(job, outcomes, environment, planned_runs=job.definition.measure.least_runs)
        folder.finish(result)
        return result

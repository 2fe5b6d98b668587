"""One job document turned into one result document, in a folder of its own, without a store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, iso
from assay.documents import from_json, to_json
from assay.errors import AssayError, MeasureError, StoreError, UsageError
from assay.exec.machine import require_needs, surroundings
from assay.files import read_bounded
from assay.hardware.environment import UsageSample
from assay.hardware.fitness.lock import mode_from
from assay.hardware.fitness.session import DeviceSession, JobEnvironment
from assay.place.needs import Profile, missing
from assay.plan.job import Job
from assay.report.live import View
from assay.report.wording import job_label
from assay.run.capabilities import profile_for
from assay.run.execute import execute_job
from assay.run.load.barrier import Meeting
from assay.run.records import Failure, RunOutcome, SingleRunResult
from assay.run.scratch import held, sweep_abandoned
from assay.run.services import RunningService
from assay.store.artefacts import ArtefactFiles
from assay.store.location import cache_folder
from assay.store.samples import SampleFiles, write_whole

RESULT = "result.json"
_LARGEST_JOB = 64 * 2**20
_NOT_KEPT = ("store", "samples", "disk")  # results cannot be kept: a record of it could not be kept either


def execute_document(
    path: Path,
    out: Path,
    view: View,
    *,
    fresh: bool = False,
    lock: str | None = None,
    control: bool = True,
    services: Mapping[str, RunningService] | None = None,
    meeting: Meeting | None = None,
) -> MultiRunJobResult:
    """Measure a job document; `out` gets `result.json`, whole or not at all, `samples/` and `files/` by content hash.

    Runs of the same job that an interrupted process left in `out` are kept. While another process measures
    into the same folder, this one waits for it.

    Args:
        lock: what to do about a device on which somebody else measures: `wait`, `try` or `off`; from ASSAY_LOCK, else
            `wait`, when left out.
        services: those of the job's services that already run, on this machine or another; they are not started.
        meeting: where the machines that share the job's load meet before each run.
    """
    job = _read(path)
    around = DeviceSession(mode_from(lock), cache_folder(), view.waiting, control=control)
    try:
        with _held(out, view):
            attempt = _Attempt(job, out, view, around, services or {}, meeting)
            result = None if attempt.begin(fresh=fresh) else attempt.result()
            if result is None:
                result = attempt.measure()
            else:
                view.note("this job was measured here before; its result stands")
            view.job_done(result)
    finally:
        view.close()
    return result


def refuse_document(path: Path, out: Path, view: View, problem: AssayError) -> MultiRunJobResult:
    """The result of a job that could not even be begun, because something that it needs elsewhere is not there.

    Runs of the same job that were measured before stay.
    """
    job = _read(path)
    around = DeviceSession("off", cache_folder(), view.note)
    try:
        with _held(out, view):
            attempt = _Attempt(job, out, view, around)
            result = None if attempt.begin(fresh=False) else attempt.result()
            if result is None:
                with around.refused(job, UsageSample()) as surrounding:
                    result = attempt.refused(problem, surrounding)
            view.job_done(result)
    finally:
        view.close()
    return result


def refusal(problem: AssayError, now: datetime) -> RunOutcome:
    """The record of a job that no machine could take."""
    said = problem.problem
    failure = Failure(said.code, said.message, phase="prepare", try_=said.try_)
    return RunOutcome(SingleRunResult(0, True, iso(now), iso(now), 0.0, error=failure))


@dataclass(slots=True)
class _Attempt:
    """One job in one folder: what is there already, and what is still to be measured."""

    job: Job
    out: Path
    view: View
    around: DeviceSession
    services: Mapping[str, RunningService] = field(default_factory=dict)
    meeting: Meeting | None = None
    outcomes: dict[int, RunOutcome] = field(default_factory=dict)  # by run

    @property
    def samples(self) -> SampleFiles:
        return SampleFiles(self.out / "samples")

    @property
    def files(self) -> ArtefactFiles:
        return ArtefactFiles(self.out / "files")

    def begin(self, *, fresh: bool) -> bool:
        """Make the folder this job's own; False when it was already, so that what lies there counts."""
        mark = self.out / "attempt.json"
        wanted = to_json({"digest": self.job.digest, "job": self.job.id, "surroundings": surroundings()}).encode()
        known = mark.is_file() and mark.read_bytes() == wanted
        if known and not fresh:
            self._take_up()
            return False
        # Another job's result must never be taken for this one's.
        (self.out / RESULT).unlink(missing_ok=True)
        for folder in ("runs", "samples", "files"):
            shutil.rmtree(self.out / folder, ignore_errors=True)
        write_whole(mark, wanted)
        return True

    def result(self) -> MultiRunJobResult | None:
        """The result that an earlier process wrote."""
        path = self.out / RESULT
        if not path.is_file():
            return None
        try:
            return from_json(MultiRunJobResult, path.read_bytes(), source=str(path))
        except UsageError:
            return None

    def measure(self) -> MultiRunJobResult:
        job = self.job
        label = job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True))
        self.view.job(job.id, label, 0, 1)
        if self.outcomes:
            self.view.note(f"resumed: {len(self.outcomes)} of {job.definition.measure.runs} runs were kept")
        look = UsageSample()
        sweep_abandoned()
        profile = _profile(job)
        refused = missing(job, profile)
        with self.around.refused(job, look) if refused else self.around.job(job, label, look) as surrounding:
            return self._placed(profile, surrounding)

    def refused(self, problem: AssayError, surrounding: JobEnvironment) -> MultiRunJobResult:
        """Write the result of a job that cannot be begun."""
        self._refuse(problem)
        return self._judged(surrounding.ended())

    def _placed(self, profile: Profile, surrounding: JobEnvironment) -> MultiRunJobResult:
        try:
            require_needs(self.job, profile)
            self._execute()
        except MeasureError as problem:
            if problem.problem.code in _NOT_KEPT:
                raise
            self._refuse(problem)
        return self._judged(surrounding.ended())

    def _judged(self, surrounding: Mapping[str, JsonValue]) -> MultiRunJobResult:
        outcomes = [self.outcomes[run_id] for run_id in sorted(self.outcomes)]
        from assay.analyse.judge import judge  # it brings numpy, which an attempt without runs yet does not need

        result = judge(self.job, outcomes, surrounding, planned_runs=self.job.definition.measure.runs)
        write_whole(self.out / RESULT, to_json(result, indent=2).encode())
        return result

    def _execute(self) -> None:
        before = tuple(outcome.result for outcome in self.outcomes.values())
        execute_job(
            self.job,
            cache=cache_folder(),
            clock=SYSTEM_CLOCK,
            watch=self.view,
            keep=self._keep,
            before=before,
            services=self.services,
            meeting=self.meeting,
        )

    def _keep(self, outcome: RunOutcome) -> None:
        files = {name: self.files.take(path) for name, path in outcome.files.items()}
        kept = replace(outcome.result, samples=self.samples.write(outcome.samples), files=files)
        write_whole(self.out / "runs" / f"{kept.run_id}.json", to_json(kept, indent=2).encode())
        self.outcomes[kept.run_id] = RunOutcome(kept, outcome.samples)

    def _refuse(self, problem: AssayError) -> None:
        refused = refusal(problem, SYSTEM_CLOCK.utc()).result
        run_id = next(number for number in range(len(self.outcomes) + 1) if number not in self.outcomes)
        self.outcomes[run_id] = RunOutcome(replace(refused, run_id=run_id, is_cold_start=run_id == 0))

    def _take_up(self) -> None:
        """Read the runs that an earlier process finished; one that cannot be read is measured again."""
        for run_id in range(self.job.definition.measure.runs):
            path = self.out / "runs" / f"{run_id}.json"
            try:
                result = from_json(SingleRunResult, path.read_bytes(), source=str(path))
                samples = self.samples.read(result.samples) if result.samples else ()
            except (OSError, AssayError):
                continue
            if result.run_id == run_id and all(map(self.files.is_whole, result.files.values())):
                self.outcomes[run_id] = RunOutcome(result, samples)


@contextmanager
def _held(out: Path, view: View) -> Iterator[None]:
    """Hold the folder of an attempt: two processes that measured at once would disturb each other."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(out, lambda: view.note(f"another process measures into {out}; waiting for it")))
        except OSError as problem:
            raise StoreError(
                f"cannot use the folder: {problem.strerror or problem}",
                code="disk",
                at=str(out),
                try_="check its permissions, or give another one with --out",
            ) from None
        yield


def _profile(job: Job) -> Profile:
    """This machine, under the name and labels that the job asks for: whoever sent it here has settled these."""
    needs = job.definition.needs
    here = profile_for([job])
    return replace(here, name=needs.agent or here.name, labels={**here.labels, **needs.labels})


def _read(path: Path) -> Job:
    try:
        return from_json(Job, read_bounded(path, _LARGEST_JOB), source=str(path))
    except OSError as problem:
        raise UsageError(f"cannot read the job document: {problem.strerror}", code="no-file", at=str(path)) from None

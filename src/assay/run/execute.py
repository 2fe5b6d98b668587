"""A job, measured: prepare once, then one fresh child process per run."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

from pydantic import JsonValue

from assay.clock import Clock, iso
from assay.errors import AssayError
from assay.plan.job import Job
from assay.run.contract import Order
from assay.run.derived_metrics import derived, labels_of
from assay.run.fetch import fetched_inputs
from assay.run.launch import TAIL_LINES, ChildExit, ChildReport, Watch, launch, log_tail, take
from assay.run.load.barrier import Meeting, give_up
from assay.run.models.sources import LocalModel, resolve
from assay.run.probes import FILE, JobProbe, job_probe
from assay.run.probes.columns import WINDOW
from assay.run.records import Failure, MachineTelemetry, RunOutcome, SampleSet, SingleRunResult, unmeasured_run
from assay.run.scratch import FOLDER, gather, scratch_folder
from assay.run.services import RunningService, held
from assay.spec.references import redact, redacted, references
from assay.spec.target import ModelTarget

# Failures that the next run would only repeat: nothing about them is chance.
CERTAIN = frozenset(
    {"device", "runtime", "model", "model-url", "model-outside", "url-policy", "model-size", "checksum", "target",
     "secret", "not-allowed", "usage", "dims", "batch", "input-type", "input-name", "input-shape", "input-dtype",
     "input-value", "input-file", "session-option", "provider-option", "disk-full", "cache", "too-many-metrics",
     "too-many-values", "service-command", "service-reference", "container-runtime", "port-taken", "index-option",
     "search-option", "extension", "vector-dims", "oracle", "task", "task-key", "tokenizer", "no-tokenizer",
     "objective", "budget", "endpoint", "header", "clients", "prompt-length", "prompt-template", "shared-prefix",
     "token-lengths", "too-few-items", "trace", "workload-file"}
)  # fmt: skip
# Lines of a run's output that a watch is given; a failed run keeps the last of them.
LOG_LINES = 40
# A run that dies twice before any has succeeded will not do better a third time.
HOPELESS = 2


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """What is fetched and checked once for all runs of a job."""

    model: LocalModel | None
    seconds: float
    services: Mapping[str, RunningService] = field(default_factory=dict)
    """Those that all runs share."""
    cache: str = ""
    meeting: Meeting | None = None
    """Where the machines that share the load meet."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    """What was fetched and packed for its programs."""


class JobWatch(Watch, Protocol):
    """Observer of a job's progress."""

    def run(self, run_id: int, of: int) -> None:
        """A run begins."""

    def log(self, lines: Sequence[str]) -> None:
        """The last lines that a run's process wrote; no secret is in them."""

    def run_done(self, result: SingleRunResult) -> None:
        """A run has ended."""


def _fetched_model(job: Job, cache: Path, watch: Watch) -> LocalModel | None:
    target = job.definition.target
    if not isinstance(target, ModelTarget):
        return None
    watch.phase("prepare")
    return resolve(target, Path(job.base), cache=cache, on_progress=_progress_of(watch))


def execute_job(
    job: Job,
    *,
    cache: Path,
    clock: Clock,
    watch: JobWatch,
    keep: Callable[[RunOutcome], None],
    before: Iterable[SingleRunResult] = (),
    services: Mapping[str, RunningService] | None = None,
    meeting: Meeting | None = None,
    more: Callable[[], bool] = lambda: False,
) -> None:
    """Measure the runs of a job that are not there yet.

    Args:
        keep: takes each run as soon as it has ended, so that a later failure cannot lose it.
        more: whether there should be another run, beside those that the job has at least.
        services: those of the definition that already run, here or on another machine; they are not started.
    """
    ended = {result.run_id: result for result in before}
    if (next_run := _next_run(job, ended, more)) is None:
        return
    with ExitStack() as until_done:
        probe = until_done.enter_context(_watched(job))  # it gets ready while the rest is prepared
        try:
            begun_s = perf_counter()
            inputs = fetched_inputs(
                job,
                cache,
                begin=lambda: watch.phase("prepare"),
                on_progress=_progress_of(watch),
                running=services or {},
            )
            job, facts = until_done.enter_context(inputs)
            model = _fetched_model(job, cache, watch)
            seconds = perf_counter() - begun_s
            shared = until_done.enter_context(_shared_services(job, watch, services or {}))
        except AssayError as refused:
            (message,) = _redacted(job, [refused.problem.message])
            failure = Failure.of(replace(refused.problem, message=message))
            outcome = RunOutcome(unmeasured_run(failure, ended, clock.utc()))
            keep(outcome)
            watch.run_done(outcome.result)
            return
        prepared = PreparedJob(model, seconds, shared, str(cache), meeting, facts)
        if probe is not None:
            probe.ready()
        while next_run is not None:
            run_id = next_run
            watch.run(run_id, max(job.definition.measure.least_runs, run_id + 1))
            with scratch_folder() as scratch:
                outcome = execute_run(job, run_id, prepared, scratch, clock=clock, watch=watch, probe=probe)
                keep(outcome)  # before the folder goes: the files of the run lie in it
            watch.run_done(outcome.result)
            ended[run_id] = outcome.result
            next_run = _next_run(job, ended, more)


def _next_run(job: Job, ended: Mapping[int, SingleRunResult], more: Callable[[], bool]) -> int | None:
    """The number of the next run; None where the job needs no more, or they would only repeat a failure."""
    if is_hopeless(ended.values()):
        return None
    least = job.definition.measure.least_runs
    missing = next((run_id for run_id in range(least) if run_id not in ended), None)
    if missing is not None:
        return missing
    return max(ended, default=-1) + 1 if more() else None


@contextmanager
def _watched(job: Job) -> Iterator[JobProbe | None]:
    """The process that samples all runs of the job; None where the file turns it off."""
    every = job.definition.measure.probe
    if every == "off":
        yield None
        return
    with scratch_folder() as folder, job_probe(folder, every, own=(os.getpid(),)) as probe:
        yield probe


@contextmanager
def _shared_services(
    job: Job, watch: Watch, known: Mapping[str, RunningService]
) -> Iterator[Mapping[str, RunningService]]:
    """The services that all runs of the job share, for as long as it is measured; those that already run among them."""
    shared = {
        name: service
        for name, service in job.definition.services.items()
        if service.fresh == "job" and name not in known
    }
    if not shared:
        yield known
        return
    watch.phase("prepare")
    with (
        scratch_folder() as folder,
        held(shared, Path(job.base), folder, known=known, notify=lambda note: watch.progress(0.0, note)) as running,
    ):
        yield {**known, **running}


def is_hopeless(results: Iterable[SingleRunResult]) -> bool:
    """Whether further runs would only repeat a failure."""
    failures = [result.error for result in results if result.error is not None]
    if any(failure.code in CERTAIN for failure in failures):
        return True
    return len(failures) >= HOPELESS and all(result.error is not None for result in results)


def execute_run(
    job: Job,
    run_id: int,
    prepared: PreparedJob,
    scratch: Path,
    *,
    clock: Clock,
    watch: JobWatch,
    probe: JobProbe | None = None,
) -> RunOutcome:
    """One fresh process, from its start to its record; files that it left stay in the scratch folder."""
    started = clock.utc()
    start_s = clock.monotonic_s()
    order = Order(
        job,
        run_id,
        str(scratch),
        model=str(prepared.model.path) if prepared.model else None,
        model_sha256=prepared.model.sha256 if prepared.model else None,
        services=prepared.services,
        cache=prepared.cache,
        meeting=prepared.meeting,
    )
    beside = [service.pid for service in prepared.services.values() if service.pid is not None]
    begin = partial(probe.begin, beside=beside) if probe is not None else None
    ended = launch(order, timeout_s=job.definition.measure.timeout, clock=clock, watch=watch, started=begin)
    report, samples = take(scratch) or (None, ())
    took_s = clock.monotonic_s() - start_s
    seen = _telemetry_of(probe, report or ChildReport(), scratch)
    tail = _redacted(job, log_tail(scratch, LOG_LINES))
    shared = [log for service in prepared.services.values() for log in (service.stdout, service.stderr)]
    files, left_out = gather(scratch, report.files if report else {}, _secrets(job), shared=shared)
    if tail:
        watch.log(tail)
    result = SingleRunResult(
        run_id=run_id,
        is_cold_start=run_id == 0,
        started_at=iso(started),
        completed_at=iso(clock.utc()),
        duration_seconds=took_s,
        absent=left_out,
        seen=seen,
    )
    if report is None or report.refusal is not None or ended.timed_out:
        failure = _failure(job, ended, report, tail[-TAIL_LINES:])
        if prepared.meeting is not None:  # those who wait for this machine need not wait longer
            give_up(prepared.meeting.of_run(run_id), prepared.meeting.who, failure.message)
        return RunOutcome(replace(result, error=failure), files=files)
    return RunOutcome(_complete(job, result, report, samples, prepared, ended), samples, files)


def _telemetry_of(probe: JobProbe | None, report: ChildReport, scratch: Path) -> MachineTelemetry | None:
    """Telemetry of a run; its readings lie among the files that are kept."""
    if probe is None:
        return None
    tests = report.facts.get("tests")
    spans = {
        name: (begin, end)
        for name, test in (tests.items() if isinstance(tests, dict) else ())
        if isinstance(test, dict)
        and isinstance(begin := test.get("begin_ns"), int)
        and isinstance(end := test.get("end_ns"), int)
    }
    return probe.finish([*report.marks, *_window(report)], spans, scratch / FOLDER / FILE)


def _window(report: ChildReport) -> list[tuple[str, int, int]]:
    """The window in which the target counted, where that is another than its phase `measure`."""
    match _counted(report).get("window_ns"):
        case [int(begin), int(end)] if begin < end:
            return [(WINDOW, begin, end)]
    return []


def _counted(report: ChildReport) -> Mapping[str, JsonValue]:
    counted = report.facts.get("counted")
    return counted if isinstance(counted, dict) else {}


def _redacted(job: Job, lines: Iterable[str]) -> tuple[str, ...]:
    secrets = _secrets(job)
    return tuple(redact(line, secrets) for line in lines)


def _secrets(job: Job) -> tuple[str, ...]:
    """The environment variables whose values nothing that is kept may show."""
    return tuple(references(job.definition.model_dump()))


def _complete(
    job: Job,
    result: SingleRunResult,
    report: ChildReport,
    samples: tuple[SampleSet, ...],
    prepared: PreparedJob,
    ended: ChildExit,
) -> SingleRunResult:
    secrets = _secrets(job)
    metrics, unmade, made = derived(
        report.metrics, result.seen, job.definition, labels_of(os.environ), platform.node(), counted=_counted(report)
    )
    # A server may say back what it was sent, a key among it.
    facts = made | {name: redacted(fact, secrets) for name, fact in {**prepared.facts, **report.facts}.items()}
    if prepared.model is not None:
        # What the target itself read from the model file, and a remark on how the file was had.
        read_back = facts.get("model")
        read_back = dict(read_back) if isinstance(read_back, dict) else {}
        for name in ("file", "sha256", "size_bytes"):
            read_back.pop(name, None)
        facts["model"] = {
            "file": prepared.model.path.name,
            "source": prepared.model.source,
            "sha256": prepared.model.sha256,
            "size_bytes": prepared.model.size_bytes,
            **read_back,
            **({"note": prepared.model.note} if prepared.model.note else {}),
        }
    if left_behind := ended.stragglers + report.left_behind:
        facts["processes_left_behind"] = left_behind
    return replace(
        result,
        phases={"prepare": prepared.seconds, **report.phases},
        metrics={**report.metrics, **metrics},
        absent={name: redact(why, secrets) for name, why in {**unmade, **report.absent, **result.absent}.items()},
        sample_counts={
            sample_set.metric: len(sample_set.value) for sample_set in samples if sample_set.phase == "measure"
        },
        facts=facts,
        device=report.device,
        window=report.window,
    )


def _failure(job: Job, ended: ChildExit, report: ChildReport | None, tail: tuple[str, ...]) -> Failure:
    phase, memory_mb = ended.phase, ended.memory_mb
    exit_code: int | None = ended.exit_code
    refusal = report.refusal if report is not None else None
    peak = f" at {memory_mb:.0f} MB" if memory_mb is not None else ""
    code, message = "crashed", f"the process ended with code {exit_code}"
    try_ = "see all that it wrote: assay logs"
    if ended.timed_out:
        code, message = "timeout", f"not finished after {job.definition.measure.timeout:g} s"
        try_ = "raise measure.timeout, or find out why it hangs"
    elif refusal is not None:
        # The child ended in good order and said why: its exit code and its own memory explain nothing.
        exit_code, memory_mb, phase = None, None, refusal.phase or phase
        if refusal.code == "command" and ended.oom_kills and _was_killed(refusal.message, tail):
            code, message = "out-of-memory", f"{refusal.message}; the kernel killed it for memory"
            try_ = "give it less to do, or run it on a machine with more memory"
        else:
            code, message, try_ = refusal.code, redact(refusal.message, _secrets(job)), refusal.try_
    elif ended.signal_name == "SIGKILL" and ended.oom_kills:
        code, message = "out-of-memory", f"the kernel killed it for memory{peak}"
        try_ = "use a smaller batch or a machine with more memory"
    elif ended.signal_name is not None:
        message = f"killed by {ended.signal_name}{peak}"
    return Failure(code, message, phase, exit_code, ended.signal_name, memory_mb, tail, try_)


def _was_killed(message: str, tail: tuple[str, ...]) -> bool:
    """Whether a command, or a process that its shell started, ended by a signal that no program can catch."""
    # A shell continues when its child is killed: it says `Killed`, and ends with 128 + 9 or with what comes next.
    return "signal 9" in message or "code 137" in message or any(line.split()[-1:] == ["Killed"] for line in tail)


def _progress_of(watch: Watch) -> Callable[[int, int | None], None]:
    def on_progress(done: int, total: int | None) -> None:
        if total:
            watch.progress(done / total, f"{done / 1e6:.0f} of {total / 1e6:.0f} MB")

    return on_progress

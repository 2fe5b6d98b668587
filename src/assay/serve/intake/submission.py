"""A benchmark becomes a campaign of the fleet: checked, planned, and kept with the files that its jobs need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from assay.errors import Problem, SpecError, UsageError
from assay.place.fleet.protocol import Submission
from assay.place.needs import needs_in_words
from assay.plan.job import Job, JobFile
from assay.plan.plan import Plan, make_plan, refuse_unsupported
from assay.report.wording import job_label
from assay.run.inputs import fingerprint_of
from assay.run.job_files import local_paths, place_files
from assay.run.models.sources import hub_name
from assay.run.targets import find_target, target_name
from assay.run.targets.environment import command_words
from assay.serve.intake.delivery import missing, missing_artefacts
from assay.serve.observability import tell
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.records import BenchmarkPreview, JobPreview, PlacementView, ScheduleView
from assay.spec.benchmark import Definition
from assay.spec.load import Loaded, load
from assay.spec.paths import Program, service_programs
from assay.spec.schedule import Schedule
from assay.spec.target import CommandTarget, ModelTarget
from assay.store.firings import Firings
from assay.store.fleet.campaigns import Also
from assay.store.records import FleetSettings
from assay.store.schedules import ScheduleRecord, Schedules

_SHA256 = re.compile(r"[0-9a-f]{64}")
Files = Mapping[str, tuple[JobFile, ...]]
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class PlannedSubmission:
    """A submission that could be accepted."""

    plan: Plan
    document: Mapping[str, JsonValue]
    labels: Mapping[str, str]
    settings: FleetSettings


def submit(state: ServerState, submission: Submission, *, by: str, origin: str = "") -> Plan:
    """Keep a campaign; its jobs are on offer at once.

    Raises:
        SpecError: with every problem of the document.
        UsageError: if the request names nothing to measure, or a name in it is refused.
        RequestProblem: 409 if files have to be uploaded first.
    """
    planned = plan_submission(state, submission, by=by, origin=origin)
    demand_files(state.kept, planned.plan)
    return keep(state, planned)


def keep(state: ServerState, planned: PlannedSubmission, also: Also | None = None) -> Plan:
    """Keep what was planned as a campaign, and what belongs to it; its jobs are on offer at once."""
    kept = state.kept
    plan = kept.store.submit_to_fleet(
        planned.plan,
        planned.document,
        planned.labels,
        state.clock,
        settings=planned.settings,
        label_of=label_of,
        also=also,
    )
    if planned.settings.unplaceable == "fail":
        kept.control.fail_unplaceable(plan.jobs[0].campaign)
    state.metrics.submitted.inc()
    state.changed()
    return plan


def plan_submission(state: ServerState, submission: Submission, *, by: str = "", origin: str = "") -> PlannedSubmission:
    """Check and plan a submission; nothing is kept."""
    document, files, version = _named(state.kept, submission)
    pinned = _pinned(document, submission.agent)
    loaded = load(pinned, base=Path())
    whole = replace(submission, files=files, version=version)
    return replace(plan_loaded(state, loaded, whole, by=by, origin=origin), document=pinned)


def plan_loaded(
    state: ServerState, loaded: Loaded, submission: Submission, *, by: str = "", origin: str = ""
) -> PlannedSubmission:
    """Check and plan a benchmark that was read, with the files and wishes of a submission; nothing is kept."""
    files = submission.files
    _check_files(files)
    _check_target(loaded)
    plan = make_plan(loaded, lambda definition: _fingerprints(definition, files))
    _check_paths(plan, files)
    labels = {**loaded.benchmark.labels, **submission.labels}
    jobs = tuple(_with_files(replace(job, labels=labels, git=submission.git), files) for job in plan.jobs)
    settings = _settings(state, loaded, submission, by=by, origin=origin, version=submission.version)
    return PlannedSubmission(replace(plan, jobs=jobs), loaded.source.document, labels, settings)


def demand_files(kept: ServerStore, plan: Plan) -> None:
    """Refuse a plan whose files are not all here.

    Raises:
        RequestProblem: 409 with every file that is missing.
    """
    wanted = {file.sha256: text for job in plan.jobs for text, files in job.files.items() for file in files}
    lacking = missing(kept.store, wanted)
    if lacking:
        raise missing_artefacts({digest: wanted[digest] for digest in lacking})


def label_of(job: Job) -> str:
    """A job's point in words."""
    return job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True))


def _named(kept: ServerStore, submission: Submission) -> tuple[Mapping[str, JsonValue], Files, int | None]:
    """The document, the files that belong to it, and its version if it is a stored one."""
    if (submission.document is None) == (not submission.benchmark):
        raise UsageError(
            "give either a document or the name of a stored benchmark",
            code="submission",
            try_='{"document": {…}} or {"benchmark": "name"}',
        )
    if submission.document is not None:
        return submission.document, submission.files, None
    stored = kept.catalogue.get(submission.benchmark, submission.version)
    return stored.document, {**stored.files, **submission.files}, stored.version


def _check_files(files: Files) -> None:
    for text, found in files.items():
        if not found or any(not _SHA256.fullmatch(file.sha256) or file.size_bytes < 0 for file in found):
            raise UsageError(
                f"files[{text[:80]!r}] needs a name, a SHA-256 in lower case and a size for each file", code="file"
            )


def _pinned(document: Mapping[str, JsonValue], agent: str) -> Mapping[str, JsonValue]:
    if not agent:
        return document
    needs = document.get("needs")
    return {**document, "needs": {**(needs if isinstance(needs, dict) else {}), "agent": agent}}


def _check_target(loaded: Loaded) -> None:
    refuse_unsupported(loaded.benchmark, ("fleet", "local"))
    if not isinstance(loaded.benchmark.target, ModelTarget | CommandTarget):
        find_target(target_name(loaded.benchmark))


def _check_paths(plan: Plan, files: Files) -> None:
    """Refuse files that only the client can see: no agent could have them."""
    named = dict.fromkeys(name for job in plan.jobs for name in local_paths(job.definition))
    hub = {hub_name(job.definition.target) for job in plan.jobs}
    here = [name for name in named if name not in files and name not in hub]
    if here:
        raise SpecError.of(
            Problem(
                "local-path",
                f"{name!r} is neither an uploaded file, a URL nor a built-in model",
                "benchmark",
                "upload it and name it under files; `assay run FILE --server URL` does both",
            )
            for name in here
        )


def _used(definition: Definition, files: Files) -> list[str]:
    """Texts of a definition that name uploaded files."""
    target = definition.target
    words = [*_words(target)] if isinstance(target, CommandTarget) else []
    words += [word for program in _services(definition) for word in program.words]
    return [text for text in dict.fromkeys([*local_paths(definition), *words]) if text in files]


def _words(target: CommandTarget) -> list[str]:
    try:
        return command_words(target)
    except ValueError as problem:  # a quote that is never closed
        raise SpecError(f"target.command cannot be split into words: {problem}", code="value", at="benchmark") from None


def _services(definition: Definition) -> tuple[Program, ...]:
    try:
        return service_programs(definition)
    except ValueError as problem:  # a quote that is never closed
        raise SpecError(f"a service's command cannot be split: {problem}", code="value", at="services") from None


def _fingerprints(definition: Definition, files: Files) -> dict[str, str]:
    return {text: fingerprint_of(files[text]) for text in _used(definition, files)}


def _with_files(job: Job, files: Files) -> Job:
    whole = replace(job, files={text: files[text] for text in _used(job.definition, files)})
    place_files(whole)  # refuses bad names before any agent sees them
    return whole


def _settings(
    state: ServerState, loaded: Loaded, submission: Submission, *, by: str, origin: str, version: int | None
) -> FleetSettings:
    fleet = loaded.benchmark.place.fleet
    deadline_s = fleet.deadline if submission.deadline_s is None else submission.deadline_s
    priority = fleet.priority if submission.priority is None else submission.priority
    if not -100 <= priority <= 100:
        raise UsageError(f"priority is {priority}; it goes from -100 to 100", code="submission")
    if deadline_s is not None and not 0 < deadline_s <= 10 * 365 * 86400:
        raise UsageError(f"deadline_s is {deadline_s:g}; it must be positive and at most ten years", code="submission")
    return FleetSettings(
        priority=priority,
        deadline=None if deadline_s is None else state.kept.control.lease_now() + deadline_s,
        unplaceable=submission.unplaceable or fleet.unplaceable,
        spread=submission.spread or fleet.spread,
        submitted_by=by,
        origin=origin,
        version=version,
    )


def preview(state: ServerState, planned: PlannedSubmission) -> BenchmarkPreview:
    """The jobs of a plan, what they need, who could take them, and what would have to be uploaded first."""
    plan = planned.plan
    wanted = dict.fromkeys(file.sha256 for job in plan.jobs for found in job.files.values() for file in found)
    jobs = tuple(
        JobPreview(job.index, label_of(job), job.digest, needs_in_words(job), job.definition.measure.runs)
        for job in plan.jobs[:_SHOWN]
    )
    return BenchmarkPreview(
        benchmark=plan.benchmark,
        digest=plan.digest,
        jobs=len(plan.jobs),
        job_list=jobs,
        placement=PlacementView.of(state.kept.control.preview(plan.jobs)),
        files_missing=missing(state.kept.store, wanted),
    )


def keep_schedule(
    state: ServerState, planned: PlannedSubmission, submission: Submission, *, by: str
) -> tuple[ScheduleView, bool]:
    """Make the schedule of a benchmark or change the one of its name; the second part says whether it is new.

    Raises:
        SpecError: if the benchmark has no schedule, or a name that no path can hold.
    """
    name = planned.plan.benchmark
    if planned.document.get("schedule") is None:
        raise SpecError(
            "the benchmark has no schedule",
            code="no-schedule",
            at="schedule",
            try_='add one to the file: schedule: "0 3 * * *"',
        )
    if "/" in name or "\\" in name:
        raise SpecError(f"a schedule's name has no slash; this one is {name!r}", code="name", at="benchmark")
    schedule = Schedule.model_validate(planned.document["schedule"])
    kept = Schedules(state.kept.store.engine, state.clock)
    record, new = kept.keep(name, schedule, _whole(planned, submission), by)
    tell(
        "schedule made" if new else "schedule changed",
        schedule=record.id,
        benchmark=name,
        cron=schedule.cron,
        timezone=schedule.timezone,
        by=by,
    )
    state.changed(jobs=False)
    return schedule_view(state, record), new


def schedule_view(state: ServerState, record: ScheduleRecord) -> ScheduleView:
    """A schedule as it is now, with its newest firing."""
    newest = Firings(state.kept.store.engine, state.clock).newest([record.id])
    return ScheduleView.of(record, newest.get(record.id), state.clock.utc())


def _whole(planned: PlannedSubmission, submission: Submission) -> Submission:
    """What to submit each time: a stored benchmark as it is now, and the agent that was asked for, written out."""
    files: dict[str, tuple[JobFile, ...]] = {
        text: found for job in planned.plan.jobs for text, found in job.files.items()
    }
    return replace(submission, document=planned.document, benchmark="", version=None, files=files, agent="")

"""A benchmark becomes a campaign of the fleet: read, checked, planned, and kept with the files that its jobs need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from assay.errors import AssayError, Problem, SpecError, UsageError
from assay.place.fleet.protocol import Submission
from assay.place.needs import needs_in_words
from assay.plan.job import JobFile
from assay.plan.plan import Plan, make_plan, refuse_unsupported
from assay.report.wording import label_of
from assay.run.inputs import fingerprint_of
from assay.run.job_files import local_paths, place_files
from assay.run.models.sources import hub_name
from assay.run.targets import find_target, target_name
from assay.run.targets.launcher import command_words
from assay.serve.delivery import missing, missing_artefacts
from assay.serve.observability import log_event
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.problems import is_away
from assay.serve.web.records import BenchmarkPreview, JobPreview, PlacementView, ScheduleView
from assay.spec.benchmark import Definition
from assay.spec.importers import own_source
from assay.spec.limits import MAX_CHARACTERS
from assay.spec.load import Loaded, check, load
from assay.spec.paths import service_programs
from assay.spec.schedule import Schedule
from assay.spec.source import KeyPath, SourceDocument, dotted, parse
from assay.spec.target import CommandTarget, ModelTarget
from assay.store.fleet.campaigns import Also
from assay.store.records import FleetSettings
from assay.store.schedules import ScheduleRecord

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
    """Keep a campaign; its jobs are on offer immediately."""
    planned = plan_submission(state, submission, by=by, origin=origin)
    demand_files(state.kept, planned.plan)
    return keep(state, planned)


def keep(state: ServerState, planned: PlannedSubmission, also: Also | None = None) -> Plan:
    """Keep what was planned as a campaign, and what belongs to it; its jobs are on offer immediately."""
    server_store = state.kept
    plan = server_store.store.submit_to_fleet(
        planned.plan,
        planned.document,
        planned.labels,
        state.clock,
        settings=planned.settings,
        label_of=label_of,
        also=also,
    )
    if planned.settings.unplaceable == "fail":
        server_store.control.fail_unplaceable(plan.jobs[0].campaign)
    state.metrics.submitted.inc()
    state.changed()
    return plan


def plan_submission(state: ServerState, submission: Submission, *, by: str = "", origin: str = "") -> PlannedSubmission:
    """Check and plan a submission; nothing is kept."""
    document, files, version = _named(state.kept, submission)
    if submission.agent:
        needs = document.get("needs")
        document = {**document, "needs": {**(needs if isinstance(needs, dict) else {}), "agent": submission.agent}}
    loaded = load(document, base=Path())
    whole = replace(submission, files=files, version=version)
    return replace(plan_loaded(state, loaded, whole, by=by, origin=origin), document=document)


def plan_loaded(
    state: ServerState, loaded: Loaded, submission: Submission, *, by: str = "", origin: str = ""
) -> PlannedSubmission:
    """Check and plan a benchmark that was read, with the files and wishes of a submission; nothing is kept."""
    files = submission.files
    _check_files(files)
    refuse_unsupported(loaded.benchmark, ("fleet", "local"))
    if not isinstance(loaded.benchmark.target, ModelTarget | CommandTarget):
        find_target(target_name(loaded.benchmark))
    plan = make_plan(
        loaded, lambda planned_job: {text: fingerprint_of(files[text]) for text in _used(planned_job, files)}
    )
    _check_paths(plan, files)
    labels = {**loaded.benchmark.labels, **submission.labels}
    jobs = []
    for job in plan.jobs:
        used = {text: files[text] for text in _used(job.definition, files)}
        jobs.append(replace(job, labels=labels, git=submission.git, files=used))
        place_files(jobs[-1])  # refuses bad names before any agent sees them
    settings = _settings(state, loaded, submission, by=by, origin=origin, version=submission.version)
    return PlannedSubmission(replace(plan, jobs=tuple(jobs)), loaded.source.document, labels, settings)


def demand_files(kept: ServerStore, plan: Plan) -> None:
    """Refuse a plan whose files are not all here."""
    wanted = {file.sha256: text for job in plan.jobs for text, files in job.files.items() for file in files}
    lacking = missing(kept.store, wanted)
    if lacking:
        raise missing_artefacts({digest: wanted[digest] for digest in lacking})


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
    for text, entries in files.items():
        if not entries or any(not _SHA256.fullmatch(file.sha256) or file.size_bytes < 0 for file in entries):
            raise UsageError(
                f"files[{text[:80]!r}] needs a name, a SHA-256 in lower case and a size for each file", code="file"
            )


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
    words: list[str] = []
    if isinstance(target, CommandTarget):
        with _quotes("target.command cannot be split into words", "benchmark"):
            words += command_words(target)
    with _quotes("a service's command cannot be split", "services"):
        words += [word for program in service_programs(definition) for word in program.words]
    return [text for text in dict.fromkeys([*local_paths(definition), *words]) if text in files]


@contextmanager
def _quotes(what: str, at: str) -> Iterator[None]:
    """Refuse a quote that is never closed."""
    try:
        yield
    except ValueError as problem:
        raise SpecError(f"{what}: {problem}", code="value", at=at) from None


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
    wanted = dict.fromkeys(file.sha256 for job in plan.jobs for entries in job.files.values() for file in entries)
    jobs = tuple(
        JobPreview(job.index, label_of(job), job.digest, needs_in_words(job), job.definition.measure.least_runs)
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
    """Make the schedule of a benchmark or change the one of its name; the second part says whether it is new."""
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
    # Each time the stored benchmark is submitted as it is now, with the agent that was asked for written out.
    files = {text: entries for job in planned.plan.jobs for text, entries in job.files.items()}
    whole = replace(submission, document=planned.document, benchmark="", version=None, files=files, agent="")
    record, new = state.kept.schedules.keep(name, schedule, whole, by)
    event = "schedule made" if new else "schedule changed"
    log_event(event, schedule=record.id, benchmark=name, cron=schedule.cron, timezone=schedule.timezone, by=by)
    state.changed(jobs=False)
    return schedule_view(state, record), new


def schedule_view(state: ServerState, record: ScheduleRecord) -> ScheduleView:
    """A schedule as it is now, with its newest firing."""
    newest = state.kept.firings.newest([record.id])
    return ScheduleView.of(record, newest.get(record.id), state.clock.utc())


LONGEST_TEXT = MAX_CHARACTERS
_NAME = "file"
_LINE = re.compile(rf"^{_NAME}:(\d+)$")


@dataclass(frozen=True, slots=True)
class BenchmarkText:
    """A benchmark file while it is written."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)]
    format: Literal["yaml", "toml", "json"] = "yaml"
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the document that names a local file → the file, then files beside it; uploaded before."""


@dataclass(frozen=True, slots=True)
class ReadProblem:
    """One thing that is wrong with a file, and where."""

    message: str
    code: str
    line: int | None
    """From 1; null where no single line is to blame."""
    column: int | None
    """From 1: where the key of that line stands."""
    path: str
    """The key of that line, such as `load.rate`; empty where no line is to blame."""
    try_: Annotated[str, Field(alias="try")]
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class BenchmarkCheck:
    """What a file says."""

    document: Mapping[str, JsonValue] | None
    """The file as plain data; null where it cannot be read at all."""
    errors: tuple[ReadProblem, ...]
    """Everything that is wrong with it, in the order of the file."""
    preview: BenchmarkPreview | None
    """What would happen if it were submitted; null while something is wrong."""


def read_text(state: ServerState, given: BenchmarkText) -> BenchmarkCheck:
    """Read a file and say what it means; what is wrong with it is the answer, not an error."""
    source = None
    try:
        source = parse(given.text, f".{given.format}", _NAME)
        planned = plan_loaded(state, check(own_source(source), Path()), Submission(files=given.files))
        return BenchmarkCheck(source.document, (), preview(state, planned))
    except AssayError as wrong:
        if is_away(wrong):
            raise
        keys = _keys(source)
        problems = tuple(_problem(problem, given.text, keys) for problem in wrong.problems)
        return BenchmarkCheck(source.document if source else None, problems, None)


Keys = Mapping[int, list[tuple[str, KeyPath]]]


def _keys(source: SourceDocument | None) -> Keys:
    """Line → the keys that stand there, with their names."""
    by_line: dict[int, list[tuple[str, KeyPath]]] = {}
    for path, line in source.lines.items() if source else ():
        by_line.setdefault(line, []).extend([(f"{dotted(path)} ", path)] if path else [])
    return by_line


def _problem(problem: Problem, text: str, keys: Keys) -> ReadProblem:
    match = _LINE.match(problem.at)
    if match is None:
        return ReadProblem(problem.message, problem.code, None, None, "", problem.try_)
    line = int(match[1])
    path = _path(keys.get(line, []), problem.message)
    return ReadProblem(problem.message, problem.code, line, _column(text, line, path), dotted(path), problem.try_)


def _path(there: list[tuple[str, KeyPath]], message: str) -> KeyPath:
    """The key that a problem on a line is about: the one that the message begins with, else the first of the line."""
    named = [path for name, path in there if message.startswith(name)]
    return max(named, key=len) if named else min((path for _, path in there), key=len, default=())


def _column(text: str, line: int, path: KeyPath) -> int | None:
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return None
    shown = lines[line - 1]
    key = path[-1] if path and isinstance(path[-1], str) else ""
    at = shown.find(key) if key else -1
    return (at if at >= 0 else len(shown) - len(shown.lstrip())) + 1

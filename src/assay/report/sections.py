"""The parts of a campaign's report, written once: HTML and Markdown differ only in how they render them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.report.device import device_sheet
from assay.report.machine import fitness_sheet, monitoring_sheet
from assay.report.numbers import NOTHING, decimals_of, show, show_percent
from assay.report.served import (
    BUCKETS_NOTE,
    ServerStatistic,
    errors_of,
    finish_reasons_of,
    search_sentences,
    server_view_of,
    token_facts_of,
)
from assay.report.sheet import Sheet, without_empty
from assay.report.telemetry import (
    energy_sentence,
    energy_sheet,
    foreign_sentences,
    grade_of,
    price_sentence,
    telemetry_sheet,
    throttling_sentences,
)
from assay.report.wording import (
    failure_sentence,
    flat,
    headline_of,
    indented,
    job_labels,
    machine_sentence,
    one_line,
    others_share,
    section,
)
from assay.run.records import SingleRunResult
from assay.units import show_seconds

# Parts of an environment that every job reads again; the rest is equal for all jobs of one machine.
_OF_ONE_JOB = ("before", "after", "lock")
_IN_A_TABLE = ("before.fitness.", "after.fitness.")
_PHASES = ("load", "warmup", "measure")
_OURS_NOTE = "Ours begins when a request was due and includes the network; the server's begins when it saw the request."


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A titled part of a job's report: sentences, then a table."""

    title: str
    sentences: tuple[str, ...] = ()
    sheet: Sheet | None = None


def job_sections(job: MultiRunJobResult, *, alone: bool = False) -> list[ReportSection]:
    """What is known of a job apart from its verdict, pictures and metrics; parts without content are left out.

    Args:
        alone: the job is shown without its campaign, whose facts would say why there is no energy.
    """
    energy = tuple(filter(None, (energy_sentence(job), price_sentence(job)))) if alone or grade_of(job) else ()
    sections = (
        ReportSection("Device tests", sheet=device_sheet(job)),
        ReportSection("Energy and price", energy, energy_sheet(job)),
        ReportSection("Telemetry", (*throttling_sentences(job), *foreign_sentences(job)), telemetry_sheet(job)),
        ReportSection("Nodes and services", sheet=monitoring_sheet(job)),
        ReportSection("Failed requests", sheet=_errors_sheet(job)),
        ReportSection("Why answers ended", sheet=_endings_sheet(job)),
        ReportSection("How tokens were counted", sheet=_tokens_sheet(job)),
        ReportSection("The server's own view", sheet=_server_sheet(job)),
        ReportSection("Search for a rate", tuple(search_sentences(job))),
        ReportSection("The machine before and after", sheet=fitness_sheet(job)),
        ReportSection("Runs", tuple(_failed_runs(job)), _runs_sheet(job)),
    )
    return [part for part in sections if any(part.sentences) or part.sheet]


def campaign_facts(record: CampaignRecord) -> list[tuple[str, str]]:
    """What is true of the whole campaign, each distinct fact once: machines, code, versions, energy, labels."""
    facts = [("machine", machine_sentence), ("commit", _commit), ("versions", _versions), ("no energy", _no_energy)]
    if not any(map(grade_of, record.jobs)):
        facts.append(("price", price_sentence))
    distinct = ((name, dict.fromkeys(filter(None, map(read, record.jobs)))) for name, read in facts)
    return [*((name, text) for name, texts in distinct for text in list(texts)[:6]), *record.labels.items()]


def _commit(job: MultiRunJobResult) -> str:
    git = section(job.environment, "git")
    changed = " with uncommitted changes" if git.get("changed") or git.get("dirty") else ""
    return one_line(f"{git['commit']}{changed}") if git.get("commit") else ""


def _versions(job: MultiRunJobResult) -> str:
    python, packages = job.environment.get("python"), section(job.environment, "packages")
    names = [f"{name} {version}" for name, version in packages.items()]
    return one_line(", ".join([*([f"Python {python}"] if python else []), *names]))


def _no_energy(job: MultiRunJobResult) -> str:
    """Why a job has no energy: a fact of its machine."""
    return "" if grade_of(job) else energy_sentence(job).removeprefix("no energy: ")


def own_environment(job: MultiRunJobResult) -> list[tuple[str, str]]:
    """The part of its environment that a job shares with no other, without what its own table has."""
    facts = flat({name: job.environment[name] for name in _OF_ONE_JOB if name in job.environment})
    return [(name, text) for name, text in facts if not name.startswith(_IN_A_TABLE)]


def environments(record: CampaignRecord) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """Each distinct environment as facts, with the labels of the jobs that ran in it."""
    labels = job_labels(record)
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for job in record.jobs:
        shared = {name: fact for name, fact in job.environment.items() if name not in _OF_ONE_JOB}
        if shared:
            groups.setdefault(tuple(flat(shared)), []).append(labels[job.job])
    return [(names, list(facts)) for facts, names in groups.items()]


def benchmark_file(record: CampaignRecord) -> str:
    """A benchmark file that measures the same jobs again; empty where nothing is known of them."""
    if not record.jobs or not record.jobs[0].definition:
        return ""
    points = [job.point for job in record.jobs]
    axes = {path: _distinct(point.get(path) for point in points) for path in points[0]}
    is_grid = math.prod(map(len, axes.values())) == len(points) and all(point.keys() == axes.keys() for point in points)
    document = {"benchmark": record.benchmark, **_without(record.jobs[0].definition, list(axes))}
    if points[0]:
        document["matrix"] = {**axes} if is_grid else {"include": [dict(point) for point in points]}
    return indented(document)


def _distinct(values: Iterable[JsonValue]) -> list[JsonValue]:
    distinct: list[JsonValue] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct


def _without(tree: Mapping[str, JsonValue], paths: Sequence[str]) -> dict[str, JsonValue]:
    """A nested mapping without the values at some dotted paths."""
    rest: dict[str, JsonValue] = {}
    for name, value in tree.items():
        below = [path.removeprefix(f"{name}.") for path in paths if path.startswith(f"{name}.")]
        left = _without(value, below) if below and isinstance(value, Mapping) else value
        if name not in paths and (left or left == value):
            rest[name] = left
    return rest


def _errors_sheet(job: MultiRunJobResult) -> Sheet | None:
    rows = tuple((error.kind, f"{error.count:,}", error.first or NOTHING) for error in errors_of(job))
    head = ("kind", "requests", "first message")
    return Sheet("Failed requests", head, rows, words=frozenset({0, 2}), kept=(0, 1, 2)) if rows else None


def _endings_sheet(job: MultiRunJobResult) -> Sheet | None:
    rows = tuple((end.kind, f"{end.count:,}") for end in finish_reasons_of(job))
    return Sheet("Why answers ended", ("reason", "answers"), rows) if rows else None


def _tokens_sheet(job: MultiRunJobResult) -> Sheet | None:
    rows = tuple(token_facts_of(job))
    return Sheet("How tokens were counted", ("fact", "value"), rows, words=frozenset({0, 1})) if rows else None


def _server_sheet(job: MultiRunJobResult) -> Sheet | None:
    views = server_view_of(job)
    rows = tuple((view.statistic, show(view.ours), view.value, _difference(view), view.source) for view in views)
    notes = (_OURS_NOTE, BUCKETS_NOTE) if any(view.between for view in views) else (_OURS_NOTE,)
    head = ("statistic", "ours", "the server's", "difference", "source")
    return Sheet("The server's own view", head, rows, notes, frozenset({0, 4}), (0, 1, 2)) if rows else None


def _difference(view: ServerStatistic) -> str:
    if view.ours is None or not view.theirs or view.between is not None:
        return NOTHING
    return show_percent(view.ours / view.theirs - 1, signed=True)


def _runs_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line per run: how long its phases took, what it ran on, and how it ended."""
    names = [name for name in headline_of(job) if job.metrics[name].run_values][:3] if job.state == "done" else []
    head = (
        "run",
        "start",
        "took",
        "load",
        "warm-up",
        "measure",
        *names,
        "samples",
        "device",
        "other programs",
        "outcome",
    )
    rows = tuple(_run_row(run, job, names) for run in job.runs)
    last = len(head) - 1
    words = frozenset({1, last - 2, last})
    return without_empty(Sheet("Runs", head, rows, words=words, kept=(0, 1, last))) if rows else None


def _run_row(run: SingleRunResult, job: MultiRunJobResult, names: Sequence[str]) -> tuple[str, ...]:
    phases = (NOTHING if (took := run.phases.get(name)) is None else show_seconds(took) for name in _PHASES)
    medians = (
        show(stats.run_values[run.run_id], decimals_of(stats)) if run.run_id in stats.run_values else NOTHING
        for stats in (job.metrics[name] for name in names)
    )
    samples = max(run.sample_counts.values(), default=0)
    return (
        str(run.run_id + 1),
        "cold" if run.is_cold_start else "fresh",
        show_seconds(run.duration_seconds),
        *phases,
        *medians,
        f"{samples:,}" if samples else NOTHING,
        one_line(run.device.used) if run.device else NOTHING,
        others_share(run) or NOTHING,
        f"failed: {one_line(run.error.code)}" if run.error else "ok",
    )


def _failed_runs(job: MultiRunJobResult) -> list[str]:
    """Why runs of a measured job failed; a failed job has its reason at its top."""
    if job.state != "done":
        return []
    return [f"Run {run.run_id + 1}: {failure_sentence(run.error)}" for run in job.runs if run.error]

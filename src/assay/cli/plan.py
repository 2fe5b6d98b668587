"""`assay plan` and `assay prepare`: what would run, and what it needs fetched ahead."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    BenchmarkFile,
    Format,
    FormatOption,
    SetOption,
    StoreOption,
    TextFormat,
    TextFormatOption,
    open_store,
)
from assay.cli.output import say
from assay.cli.target import TargetOptions
from assay.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.plan.job import Job
    from assay.plan.plan import Estimate, Plan
    from assay.run.fetch.ahead import PreparedItem


def plan(*, target: TargetOptions, form: FormatOption = Format.text, store: StoreOption = None) -> None:
    """Show the jobs of a benchmark, what they need and how long they will take."""
    from assay.place.needs import missing
    from assay.plan.plan import estimate
    from assay.run.capabilities import local_profile
    from assay.run.inputs import plan_of, refuse_inputs

    loaded = target.load()
    sys.stderr.writelines(f"note    {note}\n" for note in loaded.source.notes)
    made = plan_of(loaded)
    refuse_inputs(loaded, made)
    target.keep(loaded)
    # What a job lacks on this machine says nothing about the nodes of a cluster.
    profile = None if loaded.benchmark.place.on_cluster else local_profile()
    with open_store(store) as opened:
        rows = [
            (
                job,
                () if profile is None else missing(job, profile),
                estimate(job.definition, opened.known_seconds(job.digest), trace_s=_trace_s(job)),
            )
            for job in made.jobs
        ]
    say(_json(made, rows) if form is Format.json else _text(made, rows))


def _text(made: Plan, rows: list[tuple[Job, tuple[str, ...], Estimate]]) -> str:
    from assay.place.needs import needs_in_words
    from assay.report.sheet import text_table
    from assay.report.wording import job_label

    head = ("job", "digest", "point", "runs", "time", "needs")
    table = [
        (
            str(job.index),
            job.digest[:12],
            job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True)),
            f"{job.definition.measure.least_runs}{'+' if job.definition.adds_runs else ''}",
            "?" if time.expected_s is None else _span(time.least_s, time.expected_s),
            needs_in_words(job),
        )
        for job, _, time in rows
    ]
    lines = text_table(head, table, 100, right=(3, 4), flexible=(2, 5))
    lines += [f"job {job.index} cannot run here: {'; '.join(lacking)}" for job, lacking, _ in rows if lacking]
    expected = _in_all([time for _, _, time in rows])
    limit = show_seconds(sum(time.at_most_s for _, _, time in rows))
    jobs = "1 job" if len(rows) == 1 else f"{len(rows)} jobs"
    lines += ["", f"{made.benchmark}: {jobs}, {expected}, never longer than {limit}"]
    lines += [f"times come from {source}" for source in dict.fromkeys(time.source for _, _, time in rows)]
    return "\n".join(lines)


def _trace_s(job: Job) -> float | None:
    """How long the job's trace is, where it replays one."""
    from pathlib import Path

    load = job.definition.load
    if load.trace is None:
        return None
    from assay.run.workloads.trace import read_trace

    trace = read_trace(Path(job.base) / load.trace, within_s=load.duration, at_most=load.requests)
    return float(trace.at_s[-1])


def _span(least_s: float | None, most_s: float) -> str:

    if least_s is None:
        return show_seconds(most_s)
    return f"{show_seconds(least_s)} to {show_seconds(most_s)}" if least_s else f"up to {show_seconds(most_s)}"


def _in_all(times: list[Estimate]) -> str:
    estimates = [time for time in times if time.expected_s is not None]
    if len(estimates) < len(times):
        return "not known how long"
    most = sum(time.expected_s or 0.0 for time in estimates)
    if all(time.least_s is None for time in estimates):
        return f"about {_span(None, most)}"
    return _span(sum((time.expected_s or 0.0) if time.least_s is None else time.least_s for time in estimates), most)


def _json(made: Plan, rows: list[tuple[Job, tuple[str, ...], Estimate]]) -> str:
    jobs = [
        {
            "job": job.index,
            "digest": job.digest,
            "point": dict(job.point),
            "runs": job.definition.measure.least_runs,
            "most_runs": job.definition.most_runs,
            "missing": list(lacking),
            "expected_s": time.expected_s,
            "least_s": time.least_s,
            "at_most_s": time.at_most_s,
            "estimate_from": time.source,
        }
        for job, lacking, time in rows
    ]
    return json.dumps({"benchmark": made.benchmark, "digest": made.digest, "jobs": jobs}, indent=2)


class RuntimeName(StrEnum):
    """What runs container images."""

    auto = "auto"
    apptainer = "apptainer"
    podman = "podman"
    charliecloud = "charliecloud"
    docker = "docker"


def prepare(
    file: BenchmarkFile,
    check: Annotated[bool, typer.Option("--check", help="Fetch nothing; tell what is missing.")] = False,
    runtime: Annotated[
        RuntimeName, typer.Option("--runtime", help="What runs the images of services that do not say it.")
    ] = RuntimeName.auto,
    settings: SetOption = None,
    form: TextFormatOption = TextFormat.text,
) -> None:
    """Fetch the images, models and data of a benchmark ahead, with checksums; exit code 1 when --check misses some."""
    from assay.run.fetch.ahead import prepare as prepare_all
    from assay.spec.load import read_with

    items = prepare_all(read_with(file, settings or ()), check=check, runtime=runtime.value, notify=_notify)
    say(_prepared_json(items) if form is TextFormat.json else _prepared_text(items))
    if any(item.state == "failed" for item in items):
        raise typer.Exit(3)
    raise typer.Exit(1 if any(item.state == "missing" for item in items) else 0)


def _notify(note: str) -> None:
    sys.stderr.write(f"{note}\n")


def _prepared_json(items: Sequence[PreparedItem]) -> str:
    import json
    from dataclasses import asdict

    return json.dumps([asdict(item) for item in items], indent=2, ensure_ascii=False)


def _prepared_text(items: Sequence[PreparedItem]) -> str:
    from assay.report.sheet import GridColumn, lay_out

    if not items:
        return "nothing to prepare: this benchmark needs no image, no model and no file"
    columns = (
        GridColumn("what"),
        GridColumn("state"),
        GridColumn("size", right=True),
        GridColumn("sha256"),
        GridColumn("name", flexible=True, shortest=24),
    )
    rows = [
        (
            item.kind,
            item.state,
            "" if item.size_bytes is None else show_bytes(item.size_bytes),
            item.sha256[:12],
            item.name,
        )
        for item in items
    ]
    lines = lay_out(columns, rows, 120)
    for item in items:
        lines += [f"{item.name}: {item.note}"] if item.state in ("failed", "missing") and item.note else []
        lines += [f"{item.name}: {item.path}"] if item.state == "fetched" else []
    wanting = sum(item.state in ("missing", "failed") for item in items)
    return "\n".join([*lines, "", f"{wanting} of {len(items)} missing" if wanting else f"all {len(items)} are here"])

"""`assay plan`: what would run, before anything does."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from assay.cli.options import BenchmarkFile, Format, FormatOption, SetOption, StoreOption, open_store
from assay.cli.output import say

if TYPE_CHECKING:
    from assay.plan.estimate import Estimate
    from assay.plan.job import Job
    from assay.plan.plan import Plan


def plan(
    file: BenchmarkFile, form: FormatOption = Format.text, settings: SetOption = None, store: StoreOption = None
) -> None:
    """Show the jobs of a benchmark, what they need and how long they will take."""
    from assay.place.needs import missing
    from assay.plan.estimate import estimate
    from assay.run.capabilities import local_profile
    from assay.run.inputs import plan_of, refuse_inputs
    from assay.spec.load import read_with

    loaded = read_with(file, settings or ())
    sys.stderr.writelines(f"note    {note}\n" for note in loaded.source.notes)
    made = plan_of(loaded)
    refuse_inputs(loaded, made)
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
    from assay.report.sheet import GridColumn, lay_out
    from assay.report.wording import job_label
    from assay.units import show_seconds

    columns = (
        GridColumn("job"),
        GridColumn("digest"),
        GridColumn("point", flexible=True),
        GridColumn("runs", right=True),
        GridColumn("time", right=True),
        GridColumn("needs", flexible=True),
    )
    table = [
        (
            str(job.index),
            job.digest[:12],
            job_label(job.point, job.definition.model_dump(mode="json", exclude_defaults=True)),
            str(job.definition.measure.runs),
            "?" if time.expected_s is None else _span(time.least_s, time.expected_s),
            needs_in_words(job),
        )
        for job, _, time in rows
    ]
    lines = lay_out(columns, table, 100)
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
    from assay.units import show_seconds

    if least_s is None:
        return show_seconds(most_s)
    return f"{show_seconds(least_s)} to {show_seconds(most_s)}" if least_s else f"up to {show_seconds(most_s)}"


def _in_all(times: list[Estimate]) -> str:
    known = [time for time in times if time.expected_s is not None]
    if len(known) < len(times):
        return "not known how long"
    most = sum(time.expected_s or 0.0 for time in known)
    if all(time.least_s is None for time in known):
        return f"about {_span(None, most)}"
    return _span(sum((time.expected_s or 0.0) if time.least_s is None else time.least_s for time in known), most)


def _json(made: Plan, rows: list[tuple[Job, tuple[str, ...], Estimate]]) -> str:
    jobs = [
        {
            "job": job.index,
            "digest": job.digest,
            "point": dict(job.point),
            "runs": job.definition.measure.runs,
            "missing": list(lacking),
            "expected_s": time.expected_s,
            "least_s": time.least_s,
            "at_most_s": time.at_most_s,
            "estimate_from": time.source,
        }
        for job, lacking, time in rows
    ]
    return json.dumps({"benchmark": made.benchmark, "digest": made.digest, "jobs": jobs}, indent=2)

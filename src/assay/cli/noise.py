"""`assay noise`: the same thing measured again and again, to know which changes this machine can show."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import SetOption, StoreOption
from assay.cli.output import say, terminal_width
from assay.cli.run import LockOption, NoControlOption

if TYPE_CHECKING:
    from assay.analyse.noise import NoiseStudy
    from assay.analyse.records import Comparison, MultiRunJobResult
    from assay.report.result import CampaignResult
    from assay.spec.load import Loaded

_SCHEMA = "assay.noise/1"
_BUILT_IN = "noise of this machine"


def noise(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Benchmark file; a fixed loop of integers and memory when left out."),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", "-n", min=4, max=100, help="Fresh processes of each job.")] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="Print the study as JSON.")] = False,
    all_metrics: Annotated[bool, typer.Option("--all", help="All metrics, not only the headline ones.")] = False,
    settings: SetOption = None,
    store: StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    lock: LockOption = None,
    no_control: NoControlOption = False,
) -> None:
    """Study the noise of this machine (A/A): spread within and between runs, drift, and the smallest visible change."""
    from assay.api.run import run as run_benchmark
    from assay.report.live import view_for

    loaded = _loaded(file, runs, settings or ())
    view = view_for(text=not as_json, quiet=quiet)
    result = run_benchmark(
        loaded, store=store, fresh=True, view=view, lock=lock.value if lock else None, control=not no_control
    )
    studied = {job.job: _studied(result, job, all_metrics=all_metrics) for job in result.jobs}
    say(_json(result, studied) if as_json else _text(result, studied))
    raise typer.Exit(0 if all(job.state == "done" for job in result.jobs) else 3)


def _loaded(file: Path | None, runs: int, settings: Sequence[str]) -> Loaded:
    """The benchmark of the study, with its number of runs."""
    if file is not None:
        from assay.spec.load import read_with

        return read_with(file, (*settings, f"measure.runs={runs}"))
    if settings:
        from assay.errors import UsageError

        raise UsageError("--set changes a benchmark file, and none is given", code="set", try_="name a FILE")
    from assay.spec.load import load

    return load(built_in(runs))


def built_in(runs: int) -> Mapping[str, Any]:
    """The benchmark that needs no file: the control workload, in a fresh process each time."""
    return {
        "benchmark": _BUILT_IN,
        "target": {
            "command": [sys.executable, "-m", "assay.hardware.fitness.control_program"],
            "metrics": [{"name": f"{part}_ms", "unit": "ms", "better": "lower"} for part in ("integer", "memory")],
        },
        "measure": {"runs": runs},
    }


def _studied(result: CampaignResult, job: MultiRunJobResult, *, all_metrics: bool) -> list[NoiseStudy]:
    """What the study says about each metric of a job."""
    from assay.analyse.noise import noise_of
    from assay.analyse.summary import measured_values
    from assay.report.wording import headline_of

    samples = {run.run_id: measured_values(result.samples(job.job, run.run_id)) for run in job.runs if not run.error}
    wanted = list(job.metrics) if all_metrics else [name for name in headline_of(job) if name in job.metrics]
    found = (
        noise_of(name, job.metrics[name], {run: values[name] for run, values in samples.items() if name in values})
        for name in wanted
    )
    return [one for one in found if one is not None]


def _json(result: CampaignResult, studied: Mapping[str, Sequence[NoiseStudy]]) -> str:
    from assay.documents import to_plain
    from assay.report.wording import job_labels

    labels = job_labels(result.record)
    jobs = [
        {
            "job": job.job,
            "label": labels[job.job],
            "state": job.state,
            "verdict": job.verdict,
            "checks_failed": [to_plain(check) for check in job.checks if check.passed is False],
            "machine": job.environment.get("machine"),
            "metrics": [to_plain(one) for one in studied[job.job]],
        }
        for job in result.jobs
    ]
    return json.dumps({"schema": _SCHEMA, "campaign": result.record.campaign, "jobs": jobs}, indent=2)


def _text(result: CampaignResult, studied: Mapping[str, Sequence[NoiseStudy]]) -> str:
    from assay.report.wording import check_sentence, failed, job_labels, machine_sentence, unmeasured_sentence

    labels = job_labels(result.record)
    lines = [sentence for sentence in {machine_sentence(job): None for job in result.jobs} if sentence]
    for job in result.jobs:
        lines += ["", f"{labels[job.job]}: {job.successful_runs} equal runs"] if len(result.jobs) > 1 else [""]
        if job.state != "done":
            lines.append(unmeasured_sentence(job))
        elif not studied[job.job]:
            lines.append("no metric has the four runs that a study needs")
        else:
            found = studied[job.job]
            lines += [*_spreads(found), "", *_answers(found), "", *_resolutions(found)]
        lines += [f"doubt: {check_sentence(check)}" for check in failed(job.checks)]
    return "\n".join([*lines, "", f"result  {result.record.campaign}"])


def _spreads(studied: Sequence[NoiseStudy]) -> list[str]:
    """How much equal runs differ, inside and between them, and how they drift."""
    from assay.report.numbers import name_with_unit, show, show_percent
    from assay.report.sheet import GridColumn, lay_out

    titles = ("median", "within", "between", "95 % interval", "explained", "drift")
    columns = [GridColumn("metric", flexible=True), *(GridColumn(title, right=True) for title in titles)]
    rows = [
        (
            name_with_unit(one.metric, one.unit),
            show(one.value),
            show_percent(one.within.spread) if one.within else "-",
            show_percent(one.between),
            f"[{_figure(one.interval.low)}, {_figure(one.interval.high)}] %",
            show_percent(one.within.share) if one.within and one.within.share is not None else "-",
            show_percent(one.drift.change, signed=True) if one.drift.found else "none",
        )
        for one in studied
    ]
    return lay_out(columns, rows, terminal_width())


def _figure(share: float) -> str:
    """A share in percent without its sign, with two digits that count."""
    value = 100 * share
    return f"{value:,.{0 if value >= 10 else 1 if value >= 1 else 2}f}"


def _answers(studied: Sequence[NoiseStudy]) -> list[str]:
    """What the product's own comparison says about equal runs."""
    from assay.report.comparison import show_change
    from assay.report.numbers import name_with_unit
    from assay.report.sheet import GridColumn, lay_out

    def told(one: Comparison) -> str:
        return one.answer if one.answer == "cannot tell" else f"{one.answer} {show_change(one)}"

    titles = ("metric", "alternating", "one half after the other", "by lot")
    rows = [
        (
            name_with_unit(one.metric, one.unit),
            told(one.against.interleaved),
            told(one.against.in_turn),
            f"told apart in {one.against.told} of {one.against.splits}",
        )
        for one in studied
    ]
    columns = [GridColumn(title, flexible=title == "metric") for title in titles]
    return ["A against A", *lay_out(columns, rows, terminal_width())]


def _resolutions(studied: Sequence[NoiseStudy]) -> list[str]:
    """The smallest change that each number of runs shows."""
    from assay.report.numbers import name_with_unit, show_percent
    from assay.report.sheet import GridColumn, lay_out

    numbers = [str(one.runs) for one in studied[0].resolves]
    columns = [GridColumn("metric", flexible=True), *(GridColumn(number, right=True) for number in numbers)]
    rows = [
        (name_with_unit(one.metric, one.unit), *(show_percent(part.change) for part in one.resolves)) for one in studied
    ]
    title = "the smallest change that N runs on each side tell in four of five comparisons, N ="
    return [title, *lay_out(columns, rows, terminal_width())]

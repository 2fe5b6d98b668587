"""`assay bisect` and `assay noise`: the first bad commit or value, and which changes this machine can show."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from assay.cli.ab import AtMostOption, MetricOption, duration, share
from assay.cli.options import BenchmarkFile, QuietOption, SetOption, StoreOption, TextFormat, TextFormatOption
from assay.cli.output import say, terminal_width
from assay.cli.run import MachineOptions
from assay.errors import SpecError, UsageError
from assay.units import show_seconds

if TYPE_CHECKING:
    from assay.analyse.noise import NoiseStudy
    from assay.analyse.records import Comparison, MultiRunJobResult
    from assay.experiments.bisect import BisectResult, BisectRow
    from assay.experiments.candidates import BisectItems
    from assay.report.live import View
    from assay.report.result import CampaignResult
    from assay.spec.load import Loaded

_BISECT_SCHEMA = "assay.bisect/1"


@dataclass(frozen=True, slots=True)
class ItemOptions:
    """What is searched: commits from a good to a bad one, or the values of a key."""

    GROUP: ClassVar[str] = "What is searched"
    good: Annotated[str, typer.Option("--good", metavar="COMMIT", help="A commit that is good.")] = ""
    bad: Annotated[
        str, typer.Option("--bad", metavar="COMMIT", help="A later commit that is bad; HEAD when left out.")
    ] = ""
    build: Annotated[
        str, typer.Option("--build", metavar="COMMAND", help="Run by the shell in the folder of each commit.")
    ] = ""
    build_at_most: Annotated[
        str, typer.Option("--build-at-most", metavar="TIME", help="A build that takes longer has failed.")
    ] = "1h"
    path: Annotated[
        str, typer.Option("--path", metavar="PATH", help="A key of the file, instead of commits: target.threads.")
    ] = ""
    values: Annotated[
        str, typer.Option("--values", metavar="LIST", help="Its values from good to bad, such as 1,2,4,8.")
    ] = ""


def bisect(
    file: BenchmarkFile,
    *,
    items: ItemOptions,
    metric: MetricOption = "",
    worse_than: Annotated[
        str,
        typer.Option(
            "--worse-than",
            metavar="SHARE",
            help="Bad is what is worse than good by more than this, such as 5%; "
            "by half of what the bad end is worse, when left out.",
            show_default=False,
        ),
    ] = "",
    pairs: Annotated[
        int, typer.Option("--pairs", min=12, max=1000, help="Pairs of runs of one item with the good one, at most.")
    ] = 40,
    at_most: AtMostOption = "",
    settings: SetOption = None,
    form: TextFormatOption = TextFormat.text,
    store: StoreOption = None,
    quiet: QuietOption = False,
    machine: MachineOptions,
) -> None:
    """Find the first bad commit or value between a good and a bad one, measuring only where it decides."""
    from assay.analyse.ab import wanted_from
    from assay.experiments import bisect as bisecting
    from assay.report.live import view_for

    view = view_for(text=form is TextFormat.text, quiet=quiet)
    search = bisecting.BisectSearch(
        wanted=wanted_from(metric) if metric else None,
        worse_than=share(worse_than, "--worse-than") or None if worse_than else None,
        pairs=pairs,
        seconds=duration(at_most, "--at-most"),
    )
    with _items(file, settings or (), items, view) as candidates:
        result = bisecting.bisect(
            candidates,
            search,
            build=items.build,
            store=store,
            view=view,
            lock=machine.lock_mode,
            control=not machine.no_control,
        )
    say(json.dumps(_document(result), indent=2) if form is TextFormat.json else _text(result))
    raise typer.Exit(0 if result.found else 3)


@contextmanager
def _items(file: Path, settings: Sequence[str], options: ItemOptions, view: View) -> Iterator[BisectItems]:
    """The list that the command names: commits of the repository of the file, or values of one of its keys."""
    from assay.experiments.candidates import CommitRange, Repository, SettingRange, worktrees
    from assay.spec.load import read_with

    limit_s = duration(options.build_at_most, "--build-at-most") or 3600.0
    if options.path or options.values:
        if options.good or options.bad or options.build or not (options.path and options.values):
            raise UsageError(
                "values are given by --path and --values together, and commits by --good and --bad",
                code="usage",
                try_="assay bisect FILE --path target.threads --values 1,2,4,8",
            )
        yield SettingRange(file, settings, options.path, _listed(options.values))
        return
    if not options.good:
        raise UsageError(
            "no good end is named",
            code="usage",
            try_="assay bisect FILE --good COMMIT --bad COMMIT, or --path PATH --values LIST",
        )
    loaded = read_with(file, settings)
    repository = Repository.of(loaded.base)
    line = repository.between(options.good, options.bad or "HEAD")
    if repository.has_changes():
        view.note("the checkout has changes that are not committed; they are not measured")
    with worktrees(repository, options.build, limit_s) as trees:
        yield CommitRange(loaded, line, trees)


def _listed(text: str) -> list[Any]:
    """The values of a list, each as YAML reads it."""
    from assay.spec.source import parse

    try:
        values = parse(f"values: [{text}]", ".yaml", "--values").document["values"]
    except SpecError:
        values = None
    if not isinstance(values, list) or len(values) < 2 or len({json.dumps(value) for value in values}) < len(values):
        raise UsageError(
            f"{text!r} is no list of two or more different values",
            code="values",
            at="--values",
            try_="--values 1,2,4,8",
        )
    return values


def _document(result: BisectResult) -> dict[str, Any]:
    from assay.documents import to_plain

    return {"schema": _BISECT_SCHEMA, **to_plain(result)}


def _text(result: BisectResult) -> str:
    from assay.report.wording import one_line

    reused = sum(row.reused for row in result.rows)
    again = f", {reused} pairs measured before" if reused else ""
    how = f"{result.measured} pairs measured{again}, {show_seconds(result.seconds)}"
    skipped = [f"{row.name}: {row.why}" for row in result.rows if row.answer == "skipped"]
    notes = [f"note    {one_line(reason)}" for reason in (*skipped, *(result.because if result.found else ()))]
    return "\n".join([*_answer(result), "", *_table(result), "", how, *notes, f"result  {result.name}"])


def _answer(result: BisectResult) -> list[str]:
    """The first bad one, or why it is not known."""
    from assay.report.wording import one_line

    sure = "more than 99 % sure" if result.confidence > 0.99 else f"{100 * result.confidence:.0f} % sure"
    names = result.candidates
    if not result.found:
        why = "; ".join(result.because) or "nothing more could be measured"
        lines = [f"cannot tell: {why}", f"the first bad one is among these {len(names)} ({sure}):"]
        return [*map(one_line, lines), *(f"  {one_line(name)}" for name in names)]
    if len(names) == 1:
        return [one_line(f"first bad: {names[0]} ({sure})")]
    head = f"first bad: one of these {len(names)} ({sure}); all but the last cannot be measured"
    return [head, *(f"  {one_line(name)}" for name in names)]


def _table(result: BisectResult) -> list[str]:
    from assay.report.sheet import text_table
    from assay.report.wording import one_line

    head = ("item", "pairs", f"{result.metric} against good", "answer")
    rows = [(one_line(row.name), str(row.pairs or "-"), _change(row), row.answer) for row in result.rows]
    return text_table(head, rows, terminal_width(), right=(1, 2), flexible=(0,))


def _change(row: BisectRow) -> str:
    from assay.report.numbers import NOTHING, show_percent

    if row.change is None:
        return NOTHING
    ends = f"[{100 * row.interval.low:+.1f}, {100 * row.interval.high:+.1f}]" if row.interval else "[unknown]"
    return f"{show_percent(row.change, signed=True)} {ends}"


_NOISE_SCHEMA = "assay.noise/1"
_USUAL_RUNS = 5
_BUILT_IN = "noise of this machine"


def noise(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Benchmark file; a fixed loop of integers and memory when left out."),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", "-n", min=4, max=100, help="Fresh processes of each job.")] = 12,
    form: TextFormatOption = TextFormat.text,
    all_metrics: Annotated[bool, typer.Option("--all", help="All metrics, not only the headline ones.")] = False,
    settings: SetOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    *,
    machine: MachineOptions,
) -> None:
    """Study the noise of this machine (A/A): spread within and between runs, drift, and the smallest visible change."""
    from assay.api.run import run as run_benchmark
    from assay.report.live import view_for

    loaded = _benchmark(file, runs, settings or ())
    view = view_for(text=form is TextFormat.text, quiet=quiet)
    result = run_benchmark(
        loaded, store=store, fresh=True, view=view, lock=machine.lock_mode, control=not machine.no_control
    )
    studied = {job.job: _studied(result, job, all_metrics=all_metrics) for job in result.jobs}
    say(_noise_json(result, studied) if form is TextFormat.json else _noise_text(result, studied))
    raise typer.Exit(0 if all(job.state == "done" for job in result.jobs) else 3)


def _benchmark(file: Path | None, runs: int, settings: Sequence[str]) -> Loaded:
    """The benchmark of the study, with its number of runs."""
    if file is not None:
        from assay.spec.load import read_with

        return read_with(file, (*settings, f"measure.runs={runs}"))
    if settings:
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
    studies = (
        noise_of(name, job.metrics[name], {run: values[name] for run, values in samples.items() if name in values})
        for name in wanted
    )
    return [study for study in studies if study is not None]


def _noise_json(result: CampaignResult, studied: Mapping[str, Sequence[NoiseStudy]]) -> str:
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
            "metrics": [to_plain(study) for study in studied[job.job]],
        }
        for job in result.jobs
    ]
    return json.dumps({"schema": _NOISE_SCHEMA, "campaign": result.record.campaign, "jobs": jobs}, indent=2)


def _noise_text(result: CampaignResult, studied: Mapping[str, Sequence[NoiseStudy]]) -> str:
    from assay.report.wording import check_sentence, failed_checks, job_labels, machine_sentence, unmeasured_sentence

    labels = job_labels(result.record)
    lines = [sentence for sentence in {machine_sentence(job): None for job in result.jobs} if sentence]
    for job in result.jobs:
        lines += ["", f"{labels[job.job]}: {job.successful_runs} equal runs"] if len(result.jobs) > 1 else [""]
        if job.state != "done":
            lines.append(unmeasured_sentence(job))
        elif not studied[job.job]:
            lines.append("no metric has the four runs that a study needs")
        else:
            studies = studied[job.job]
            lines += [
                _in_a_sentence(studies),
                "",
                *_spreads(studies),
                "",
                *_answers(studies),
                "",
                *_resolutions(studies),
            ]
        lines += [f"doubt: {check_sentence(check)}" for check in failed_checks(job)]
    return "\n".join([*lines, "", f"result  {result.record.campaign}"])


def _in_a_sentence(studied: Sequence[NoiseStudy]) -> str:
    """The answer to what most people ask: how small a change a usual number of runs shows here."""
    from assay.report.numbers import show_percent

    usual = next(i for i, part in enumerate(studied[0].resolves) if part.runs >= _USUAL_RUNS)
    changes = " and ".join(f"{show_percent(study.resolves[usual].change)} in {study.metric}" for study in studied)
    runs = studied[0].resolves[usual].runs
    return f"With {runs} runs on each side, a comparison here shows changes of {changes} or more."


def _spreads(studied: Sequence[NoiseStudy]) -> list[str]:
    """How much equal runs differ, inside and between them, and how they drift."""
    from assay.report.numbers import name_with_unit, show, show_percent
    from assay.report.sheet import text_table

    head = ("metric", "median", "within", "between", "95 % interval", "explained", "drift")
    rows = [
        (
            name_with_unit(study.metric, study.unit),
            show(study.value),
            show_percent(study.within.spread) if study.within else "-",
            show_percent(study.between),
            f"[{_figure(study.interval.low)}, {_figure(study.interval.high)}] %",
            show_percent(study.within.share) if study.within and study.within.share is not None else "-",
            show_percent(study.drift.change, signed=True) if study.drift.found else "none",
        )
        for study in studied
    ]
    return text_table(head, rows, terminal_width(), right=range(1, 7), flexible=(0,))


def _figure(share: float) -> str:
    """A share in percent without its sign, with two digits that count."""
    value = 100 * share
    return f"{value:,.{0 if value >= 10 else 1 if value >= 1 else 2}f}"


def _answers(studied: Sequence[NoiseStudy]) -> list[str]:
    """What the product's own comparison says about equal runs."""
    from assay.report.comparison import show_change
    from assay.report.numbers import name_with_unit
    from assay.report.sheet import text_table

    def answer(comparison: Comparison) -> str:
        return (
            comparison.answer
            if comparison.answer == "cannot tell"
            else f"{comparison.answer} {show_change(comparison)}"
        )

    titles = ("metric", "alternating", "first half against second", "random halves")
    rows = [
        (
            name_with_unit(study.metric, study.unit),
            answer(study.against.interleaved),
            answer(study.against.in_turn),
            f"different in {study.against.told} of {study.against.splits}",
        )
        for study in studied
    ]
    return ["A against A", *text_table(titles, rows, terminal_width(), flexible=(0,))]


def _resolutions(studied: Sequence[NoiseStudy]) -> list[str]:
    """The smallest change that each number of runs shows."""
    from assay.report.numbers import name_with_unit, show_percent
    from assay.report.sheet import text_table

    head = ["metric", *(str(study.runs) for study in studied[0].resolves)]
    rows = [
        (name_with_unit(study.metric, study.unit), *(show_percent(part.change) for part in study.resolves))
        for study in studied
    ]
    title = "the smallest change that N runs on each side show in four of five comparisons, N ="
    return [title, *text_table(head, rows, terminal_width(), right=range(1, len(head)), flexible=(0,))]

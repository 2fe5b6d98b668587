"""`assay bisect`: the first bad commit, or the first bad value of a setting."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.ab import AtMostOption, MetricOption, duration, share
from assay.cli.options import BenchmarkFile, SetOption, StoreOption
from assay.cli.output import say, terminal_width
from assay.cli.run import LockOption, NoControlOption

if TYPE_CHECKING:
    from assay.experiments.bisect import BisectResult, BisectRow
    from assay.experiments.candidates import BisectItems
    from assay.report.live import View

_SCHEMA = "assay.bisect/1"


@dataclass(frozen=True, slots=True)
class ItemOptions:
    """What is searched: commits from a good to a bad one, or the values of a key."""

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    store: StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    lock: LockOption = None,
    no_control: NoControlOption = False,
) -> None:
    """Find the first bad commit or value between a good and a bad one, measuring only where it decides."""
    from assay.analyse.ab import wanted_from
    from assay.experiments import bisect as bisecting
    from assay.report.live import view_for

    view = view_for(text=not as_json, quiet=quiet)
    search = bisecting.BisectSearch(
        wanted=wanted_from(metric) if metric else None,
        worse_than=share(worse_than, "--worse-than") or None if worse_than else None,
        pairs=pairs,
        seconds=duration(at_most, "--at-most"),
    )
    with _items(file, settings or (), items, view) as candidates:
        found = bisecting.bisect(
            candidates,
            search,
            build=items.build,
            store=store,
            view=view,
            lock=lock.value if lock else None,
            control=not no_control,
        )
    say(json.dumps(_document(found), indent=2) if as_json else _text(found))
    raise typer.Exit(0 if found.found else 3)


@contextmanager
def _items(file: Path, settings: Sequence[str], options: ItemOptions, view: View) -> Iterator[BisectItems]:
    """The list that the command names: commits of the repository of the file, or values of one of its keys."""
    from assay.errors import UsageError
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
    from assay.errors import SpecError, UsageError
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


def _document(found: BisectResult) -> dict[str, Any]:
    from assay.documents import to_plain

    return {"schema": _SCHEMA, **to_plain(found)}


def _text(found: BisectResult) -> str:
    from assay.report.wording import one_line
    from assay.units import show_seconds

    reused = sum(row.reused for row in found.rows)
    again = f", {reused} pairs measured before" if reused else ""
    how = f"{found.measured} pairs measured{again}, {show_seconds(found.seconds)}"
    skipped = [f"{row.name}: {row.why}" for row in found.rows if row.answer == "skipped"]
    notes = [f"note    {one_line(reason)}" for reason in (*skipped, *(found.because if found.found else ()))]
    return "\n".join([*_answer(found), "", *_table(found), "", how, *notes, f"result  {found.name}"])


def _answer(found: BisectResult) -> list[str]:
    """The first bad one, or why it cannot be told."""
    from assay.report.wording import one_line

    sure = "more than 99 % sure" if found.confidence > 0.99 else f"{100 * found.confidence:.0f} % sure"
    names = found.candidates
    if not found.found:
        why = "; ".join(found.because) or "nothing more could be measured"
        lines = [f"cannot tell: {why}", f"the first bad one is among these {len(names)} ({sure}):"]
        return [*map(one_line, lines), *(f"  {one_line(name)}" for name in names)]
    if len(names) == 1:
        return [one_line(f"first bad: {names[0]} ({sure})")]
    head = f"first bad: one of these {len(names)} ({sure}); all but the last cannot be measured"
    return [head, *(f"  {one_line(name)}" for name in names)]


def _table(found: BisectResult) -> list[str]:
    from assay.report.sheet import GridColumn, lay_out
    from assay.report.wording import one_line

    columns = [
        GridColumn("item", flexible=True),
        GridColumn("pairs", right=True),
        GridColumn(f"{found.metric} against good", right=True),
        GridColumn("answer"),
    ]
    rows = [(one_line(row.name), str(row.pairs or "-"), _change(row), row.answer) for row in found.rows]
    return lay_out(columns, rows, terminal_width())


def _change(row: BisectRow) -> str:
    from assay.report.numbers import NOTHING, show_percent

    if row.change is None:
        return NOTHING
    ends = f"[{100 * row.interval.low:+.1f}, {100 * row.interval.high:+.1f}]" if row.interval else "[unknown]"
    return f"{show_percent(row.change, signed=True)} {ends}"

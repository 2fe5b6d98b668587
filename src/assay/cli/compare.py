"""`assay compare` and `assay gate`: results side by side, and a pipeline that passes or fails by them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import Format, FormatOption, SourceOptions
from assay.cli.output import say, terminal_width
from assay.errors import MeasureError, UsageError
from assay.units import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.analyse.gate import ByRun, GateResult, RegressionLimits
    from assay.report.comparison import ComparisonResult, Reader, Side
    from assay.report.gate import Gated
    from assay.store.references import Most


_SIDE = (
    "Campaign (id, its beginning, `latest`, `latest~1`), one of its jobs (`c1f3/0`), `label:branch=main`, "
    "`branch:main`, `commit:1a2b3c`, `commit:HEAD~1`, a result file, or a folder of them."
)
RepositoryOption = Annotated[
    Path | None,
    typer.Option(
        "--repository",
        help="Folder in whose repository revisions are looked up; the benchmark's own when left out.",
        show_default=False,
    ),
]
AnywayOption = Annotated[
    bool, typer.Option("--anyway", help="Compare although machine or settings differ: they are the question.")
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Pool all results of the label, branch or commit, not the newest.")
]
LastOption = Annotated[
    int | None,
    typer.Option("--last", min=1, help="Pool this many of the newest results of the label, branch or commit."),
]


def compare(
    a: Annotated[str, typer.Argument(help=_SIDE)],
    b: Annotated[str, typer.Argument(help=_SIDE)],
    form: FormatOption = Format.text,
    by: Annotated[str, typer.Option("--by", help="Smallest change of interest, such as 2%.")] = "0%",
    anyway: AnywayOption = False,
    pool_all: AllOption = False,
    last: LastOption = None,
    all_metrics: Annotated[
        bool, typer.Option("--all-metrics", help="All metrics, not only the headline ones.")
    ] = False,
    benchmark: Annotated[
        str, typer.Option("--benchmark", help="Look for labels, branches and commits in this benchmark.")
    ] = "",
    repository: RepositoryOption = None,
    fail_on_worse: Annotated[
        bool, typer.Option("--fail-on-worse", help="Exit code 1 if anything is worse, 3 if nothing can be compared.")
    ] = False,
    *,
    options: SourceOptions,
) -> None:
    """Compare results: better, worse, cannot tell and why, or not like for like."""
    from assay.report.comparison import Reader, compared

    smallest = share(by, "--by")
    with Reader(options.open, repository) as reader:
        left, right = _sides(reader, a, b, benchmark, most_of(last, pool_all=pool_all))
    comparison = compared(left, right, smallest=smallest, anyway=anyway, all_metrics=all_metrics)
    if not comparison.jobs:
        lone = "; ".join(
            f"only in {name}: {', '.join(jobs) or 'nothing'}"
            for name, jobs in (("a", comparison.only_a), ("b", comparison.only_b))
        )
        raise UsageError(
            f"{a} and {b} have no job in common ({lone})",
            code="not-comparable",
            try_="compare campaigns of the same benchmark, or one job of each: c1f3/0 c2e4/1",
        )
    say(_rendered(comparison, form))
    if fail_on_worse and comparison.is_refused:
        raise typer.Exit(3)
    raise typer.Exit(1 if fail_on_worse and comparison.is_worse else 0)


def _sides(reader: Reader, a: str, b: str, benchmark: str, most: Most) -> tuple[Side, Side]:
    """Read both sides.

    A label, branch or commit is looked for in the benchmark that the other side names, and not in that very result.
    """
    from assay.report.comparison import names_itself

    first, second = (b, a) if names_itself(b) and not names_itself(a) else (a, b)
    first_side = reader.side([first], benchmark=benchmark, most=most)
    own = {record.campaign for record in first_side.records} if names_itself(first) and not names_itself(second) else ()
    other = reader.side([second], benchmark=benchmark or first_side.benchmark, most=most, but=own)
    if same := set(first_side.names) & set(other.names):
        raise UsageError(
            f"{a} and {b} both name {', '.join(sorted(same))}: a result tells nothing against itself",
            code="same-result",
            try_="name another result, such as latest~1",
        )
    return (other, first_side) if first is b else (first_side, other)


def most_of(last: int | None, *, pool_all: bool) -> Most:
    """How many results a label, a commit or a folder stands for."""
    if pool_all and last is not None:
        raise UsageError("--all and --last cannot both be true", code="usage", try_="leave one of them out")
    return "all" if pool_all else last


def share(text: str, option: str) -> float:
    try:
        return ratio(text)
    except ValueError as problem:
        raise UsageError(f"{option}: {problem}", code="share") from None


def _rendered(result: ComparisonResult, form: Format) -> str:
    from assay.report.comparison import compared_csv, compared_json, compared_markdown, compared_text

    if form is Format.json:
        return compared_json(result)
    if form is Format.csv:
        return compared_csv(result)
    if form is Format.md:
        return compared_markdown(result)
    return compared_text(result, terminal_width())


class GateFormat(StrEnum):
    """How a gate is printed."""

    text = "text"
    json = "json"
    md = "md"


_RESULT = "What is judged: a campaign, a job of it (`c1f3/0`), a label, a commit, or a result file."
_BASELINE = (
    "What it is held against: a campaign, `branch:main`, `label:nightly`, `commit:1a2b3c`, a result file, or a folder "
    "of them; may be given several times."
)
_LIMIT = "Limit of one number, such as ttft_ms.p99=3%; may be given several times."


def gate(
    result: Annotated[str, typer.Argument(help=_RESULT)] = "latest",
    baseline: Annotated[list[str] | None, typer.Option("--baseline", "-b", help=_BASELINE)] = None,
    worse_than: Annotated[str, typer.Option("--worse-than", help="How much worse is red.")] = "5%",
    limit: Annotated[list[str] | None, typer.Option("--limit", metavar="NUMBER=SHARE", help=_LIMIT)] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Count this number, instead of the headline ones.")
    ] = None,
    pool_all: AllOption = False,
    last: LastOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 3 where the answer is `cannot tell`.")] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Exit code 0 where there is no baseline yet.")
    ] = False,
    anyway: AnywayOption = False,
    form: Annotated[GateFormat, typer.Option("--format", "-f", help="How to print it.")] = GateFormat.text,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Also write a comment for a pull request here.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML here.")] = None,
    repository: RepositoryOption = None,
    *,
    options: SourceOptions,
) -> None:
    """Judge a result against earlier ones: exit code 0 green, 1 red, 3 where there was nothing to judge.

    Red is a number that is worse beyond its limit, a missed objective, or an invalid result. `cannot tell` gives 0 and
    a note, or 3 with --strict.
    """
    from assay.report.comparison import Reader, by_run_of
    from assay.report.gate import Gated

    limits = _limits(worse_than, limit or (), metric or ())
    with Reader(options.open, repository) as reader:
        judged = _judged(reader, result)
        against = _baseline(reader, baseline, judged, most_of(last, pool_all=pool_all))
        gated = Gated(
            _judge(judged, against, limits, by_run_of(reader), anyway=anyway),
            judged,
            against,
            limits,
            strict=strict,
            allow_missing=allow_missing,
        )
    _write(gated, markdown, junit)
    say(_rendered_gate(gated, form))
    _warn(gated)
    raise typer.Exit(gated.exit_code)


def _limits(worse_than: str, given: Sequence[str], numbers: Sequence[str]) -> RegressionLimits:
    from assay.analyse.gate import RegressionLimits

    of: dict[str, float] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"{text!r} limits nothing", code="limit", at="--limit", try_="write --limit ttft_ms.p99=3%"
            )
        of[name.strip()] = share(value, f"--limit {name.strip()}")
    return RegressionLimits(share(worse_than, "--worse-than"), of, tuple(numbers))


def _judged(reader: Reader, reference: str) -> Side:
    """The result that is judged; where it is not there, nothing was measured, which is neither red nor green."""
    from assay.store.references import NoSuchResultError

    try:
        return reader.side([reference])
    except NoSuchResultError as problem:
        said = problem.problem
        raise MeasureError(said.message, code=said.code, at=said.at, try_=said.try_) from None


def _baseline(reader: Reader, references: Sequence[str] | None, judged: Side, most: Most) -> Side | None:
    """The earlier results; an empty side where none is there yet, None where none was asked for."""
    from assay.report.comparison import Side
    from assay.store.references import NoSuchResultError

    if not references:
        if not any(job.gates for record in judged.records for job in record.jobs):
            raise UsageError(
                "there is nothing to judge by: no baseline was given and the benchmark has no objective",
                code="no-baseline",
                try_="--baseline label:branch=main, or an objective",
            )
        return None
    own = {record.campaign for record in judged.records}
    try:
        return reader.side(references, benchmark=judged.benchmark, most=most, but=own)
    except NoSuchResultError as problem:
        sys.stderr.write(f"{problem}\n")
        return Side(tuple(references), (), ())


def _judge(judged: Side, against: Side | None, limits: RegressionLimits, by_run: ByRun, *, anyway: bool) -> GateResult:
    from assay.analyse.gate import gate as judge
    from assay.analyse.gate import unknown_numbers
    from assay.report.wording import headline_of

    record = judged.records[0]
    earlier = against.records if against else ()
    jobs = [job for campaign_record in (record, *earlier) for job in campaign_record.jobs]
    if unknown := unknown_numbers(limits, jobs):
        names = sorted({name for job in jobs for name in job.metrics})
        raise UsageError(
            f"no job has the metric {unknown[0]}",
            code="unknown-metric",
            at="--limit or --metric",
            try_=f"use one of {', '.join(names)}",
        )
    return judge(
        record,
        against.records if against else None,
        limits,
        headline_of,
        anyway=anyway,
        part=not judged.whole,
        by_run=by_run,
    )


def _write(gated: Gated, markdown: Path | None, junit: Path | None) -> None:
    from assay.store.samples import write_whole

    if markdown is not None:
        from assay.report.gate import gate_markdown

        write_whole(markdown, gate_markdown(gated).encode())
    if junit is not None:
        from assay.report.gate import gate_junit

        write_whole(junit, gate_junit(gated).encode())


def _rendered_gate(gated: Gated, form: GateFormat) -> str:
    from assay.report import gate as written

    if form is GateFormat.json:
        return written.gate_json(gated)
    if form is GateFormat.md:
        return written.gate_markdown(gated)
    return written.gate_text(gated, terminal_width())


def _warn(gated: Gated) -> None:
    """Say aloud that a gate is not green although it does not fail the build."""
    if gated.gate.answer in ("cannot tell", "nothing"):
        sys.stderr.write(f"WARNING: the gate is not green: {gated.sentence}\n")

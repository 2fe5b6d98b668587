"""`assay compare`: results side by side, with three answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import Format, FormatOption, SourceOptions
from assay.cli.output import say, terminal_width

if TYPE_CHECKING:
    from assay.report.comparison import ComparisonResult
    from assay.report.sides import Reader, Side
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
    int | None, typer.Option("--last", min=1, help="Pool so many of the newest results of the label, branch or commit.")
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
    """Compare results: better, worse, or cannot tell and why; what must not be compared is said first."""
    from assay.errors import UsageError
    from assay.report.comparison import compared
    from assay.report.sides import Reader

    smallest = share(by, "--by")
    with Reader(options.open, repository) as reader:
        left, right = _sides(reader, a, b, benchmark, most_of(last, pool_all=pool_all))
    found = compared(left, right, smallest=smallest, anyway=anyway, all_metrics=all_metrics)
    if not found.jobs:
        lone = "; ".join(
            f"only in {name}: {', '.join(jobs) or 'nothing'}"
            for name, jobs in (("a", found.only_a), ("b", found.only_b))
        )
        raise UsageError(
            f"{a} and {b} have no job in common ({lone})",
            code="not-comparable",
            try_="compare campaigns of the same benchmark, or one job of each: c1f3/0 c2e4/1",
        )
    say(_rendered(found, form))
    if fail_on_worse and found.is_refused:
        raise typer.Exit(3)
    raise typer.Exit(1 if fail_on_worse and found.is_worse else 0)


def _sides(reader: Reader, a: str, b: str, benchmark: str, most: Most) -> tuple[Side, Side]:
    """Read both sides.

    A label, branch or commit is looked for in the benchmark that the other side names, and not in that very result.
    """
    from assay.errors import UsageError
    from assay.report.sides import names_itself

    first, second = (b, a) if names_itself(b) and not names_itself(a) else (a, b)
    known = reader.side([first], benchmark=benchmark, most=most)
    own = {record.campaign for record in known.records} if names_itself(first) and not names_itself(second) else ()
    other = reader.side([second], benchmark=benchmark or known.benchmark, most=most, but=own)
    if same := set(known.names) & set(other.names):
        raise UsageError(
            f"{a} and {b} both name {', '.join(sorted(same))}: a result tells nothing against itself",
            code="same-result",
            try_="name another result, such as latest~1",
        )
    return (other, known) if first is b else (known, other)


def most_of(last: int | None, *, pool_all: bool) -> Most:
    """How many results a label, a commit or a folder stands for."""
    from assay.errors import UsageError

    if pool_all and last is not None:
        raise UsageError("--all and --last cannot both be true", code="usage", try_="leave one of them out")
    return "all" if pool_all else last


def share(text: str, option: str) -> float:
    """A share that an option gives, such as 2%."""
    from assay.errors import UsageError
    from assay.units import ratio

    try:
        return ratio(text)
    except ValueError as problem:
        raise UsageError(f"{option}: {problem}", code="share") from None


def _rendered(found: ComparisonResult, form: Format) -> str:
    from assay.report.comparison import compared_csv, compared_json, compared_markdown, compared_text

    if form is Format.json:
        return compared_json(found)
    if form is Format.csv:
        return compared_csv(found)
    if form is Format.md:
        return compared_markdown(found)
    return compared_text(found, terminal_width())

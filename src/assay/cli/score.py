"""`assay score`: kept answers judged again, without measuring again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import SourceOptions
from assay.cli.output import say, terminal_width

if TYPE_CHECKING:
    from assay.analyse.records import MultiRunJobResult


class ScoreFormat(StrEnum):
    """How scores are printed."""

    table = "table"
    json = "json"


def score(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="Campaign (id, its beginning, `latest`) or id of one job.")
    ] = "latest",
    scorer: Annotated[
        list[str] | None, typer.Option("--scorer", "-s", help="Who judges; those of the benchmark when left out.")
    ] = None,
    form: Annotated[ScoreFormat, typer.Option("--format", "-f", help="How to print the scores.")] = ScoreFormat.table,
    list_: Annotated[bool, typer.Option("--list", help="Show the scores that there are; compute none.")] = False,
    *,
    options: SourceOptions,
) -> None:
    """Judge the kept answers of a result, and add the scores to it; nothing is measured again."""
    from assay.api.rescore import scores_json

    campaign, is_job, _ = result.rpartition("-job-")
    with options.open() as source:
        record = source.record(source.find(campaign if is_job else result))
        results = _chosen(record.jobs, result if is_job else "")
        for one in () if list_ else _with_answers(results):
            source.score(one, scorer or ())
        scores = source.scores(results)
    if form is ScoreFormat.json:
        say(scores_json(results, scores))
        return
    from assay.report.scores import render_scores

    say(render_scores(results, scores, terminal_width()) if scores else "no scores")


def _chosen(jobs: tuple[MultiRunJobResult, ...], job: str) -> list[MultiRunJobResult]:
    from assay.errors import UsageError

    found = [one for one in jobs if not job or one.job == job]
    if not found:
        raise UsageError(
            f"no job {job!r} is there", code="unknown-job", try_="`assay results list` shows what is there"
        )
    return found


def _with_answers(results: list[MultiRunJobResult]) -> list[MultiRunJobResult]:
    """Those that can be judged; where none can, the error says why."""
    from assay.api.rescore import has_outputs
    from assay.errors import UsageError

    able = [one for one in results if has_outputs(one)]
    if not able:
        raise UsageError(
            f"no answers were kept of {results[0].job}{' and others' if len(results) > 1 else ''}",
            code="no-outputs",
            try_="set workload.keep_outputs: true and measure again",
        )
    return able

"""`assay score`: kept answers judged again, without measuring again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.options import (
    SourceOptions,
    open_store,
)
from assay.cli.output import say, terminal_width

if TYPE_CHECKING:
    from assay.analyse.records import MultiRunJobResult
    from assay.analyse.scores import ScoreRecord
    from assay.place.fleet.client import FleetClient
    from assay.store.store import Store

    Scores = dict[str, tuple[ScoreRecord, ...]]

# A server judges thousands of answers before it says anything.
_PATIENCE_S = 900.0


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
    source: SourceOptions,
) -> None:
    """Judge the kept answers of a result, and add the scores to it; nothing is measured again."""
    from assay.api.rescore import scores_json

    wanted = tuple(scorer or ())
    if server:
        results, scores = _on_server(server.connect(), result, wanted, compute=not list_)
    else:
        kept = open_store(store)
        try:
            results, scores = _here(kept, result, wanted, compute=not list_)
        finally:
            kept.close()
    if form is ScoreFormat.json:
        say(scores_json(results, scores))
        return
    from assay.report.scores import render_scores

    say(render_scores(results, scores, terminal_width()) if scores else "no scores")


def _here(
    kept: Store, reference: str, scorers: tuple[str, ...], *, compute: bool
) -> tuple[list[MultiRunJobResult], Scores]:
    from assay.api.rescore import in_store, keep_scores, kept_scores, rescore, scorers_of
    from assay.clock import SYSTEM_CLOCK
    from assay.report.reading import read_campaign

    campaign, mark, _ = reference.rpartition("-job-")
    record = read_campaign(kept, kept.find(campaign if mark else reference))
    results = _chosen(record.jobs, reference if mark else "")
    if compute:
        for one in _with_answers(results):
            keep_scores(kept, rescore(one, in_store(kept), scorers_of(one, scorers), SYSTEM_CLOCK))
    return results, kept_scores(kept, results)


def _on_server(
    client: FleetClient, reference: str, scorers: tuple[str, ...], *, compute: bool
) -> tuple[list[MultiRunJobResult], Scores]:
    from assay.analyse.scores import ScoreRecord
    from assay.documents import adapter
    from assay.engines.fleet.campaign import read

    campaign, mark, _ = reference.rpartition("-job-")
    results = _chosen(read(client, campaign if mark else reference).jobs, reference if mark else "")
    if compute:
        for one in _with_answers(results):
            client.send("POST", f"/jobs/{one.job}/scores", json={"scorers": list(scorers)}, timeout_s=_PATIENCE_S)
    found = {one.job: client.get(f"/jobs/{one.job}/scores")["items"] for one in results}
    codec = adapter(tuple[ScoreRecord, ...])
    return results, {job: codec.validate_python(items) for job, items in found.items() if items}


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

"""Kept answers, judged again without measuring again; the result stays as it is, and scores are added to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.analyse.summary import ScoreRecord, qualities
from assay.clock import Clock, iso
from assay.documents import from_json, to_json
from assay.errors import MeasureError, UsageError
from assay.run.scoring import OUTPUTS, Scores, read_outputs, scored, scorer_version
from assay.store.store import Store, keep_score, scores_of

Find = Callable[[str], Path]


def scorers_of(result: MultiRunJobResult, requested: Sequence[str] = ()) -> tuple[str, ...]:
    """Who judges: those asked for, else those of the benchmark, else those that judged after the run.

    Raises:
        UsageError: `no-scorer` if none is requested and none is known.
    """
    workload = result.definition.get("workload")
    named = workload.get("scorers") if isinstance(workload, dict) else None
    listed = [str(scorer) for scorer in named] if isinstance(named, list) else []
    facts = [run.facts.get("scores") for run in result.runs]
    before = [name for scores in facts if isinstance(scores, dict) for name in scores]
    chosen = tuple(dict.fromkeys(list(requested) or listed or before))
    if not chosen:
        raise UsageError(f"{result.job} names no scorer", code="no-scorer", try_="give one: --scorer rouge")
    return chosen


def has_outputs(result: MultiRunJobResult) -> bool:
    """Whether answers were kept that can be judged."""
    return any(OUTPUTS in run.files for run in result.runs if run.error is None)


def rescore(result: MultiRunJobResult, find: Find, scorers: Sequence[str], clock: Clock) -> tuple[ScoreRecord, ...]:
    """Judge the kept answers of a job, one record per scorer.

    Args:
        result: the job.
        find: content hash → the file that has it.
        scorers: names of scorers.
        clock: tells the time.

    Raises:
        UsageError: `no-outputs` if no answers were kept.
        MeasureError: if a scorer cannot judge, or the answers cannot be read.
    """
    if not has_outputs(result):
        raise UsageError(
            f"{result.job} kept no answers", code="no-outputs", try_="set workload.keep_outputs: true and measure again"
        )
    runs = {run.run_id: run.files[OUTPUTS] for run in result.runs if run.error is None and OUTPUTS in run.files}
    judged: dict[int, dict[str, Scores]] = {}
    for run, digest in runs.items():
        outputs = tuple(read_outputs(find(digest)))
        judged[run] = {name: scored(outputs, [name]) for name in scorers}
    now = iso(clock.utc())
    return tuple(
        _record(result.job, name, now, {run: scores[name] for run, scores in judged.items()}, runs) for name in scorers
    )


def keep_scores(store: Store, records: Iterable[ScoreRecord]) -> None:
    """Add scores to the results that they are of."""
    for record in records:
        at = datetime.fromisoformat(record.computed_at).timestamp()
        keep_score(
            store.engine,
            record.job,
            scorer=record.scorer,
            version=record.version,
            computed_at=at,
            document=to_json(record),
        )


def kept_scores(store: Store, results: Iterable[MultiRunJobResult]) -> dict[str, tuple[ScoreRecord, ...]]:
    """Job → its scores, oldest first; those of answers that were replaced since are left out."""
    digests = {result.job: {run.run_id: run.files.get(OUTPUTS) for run in result.runs} for result in results}
    scores: dict[str, tuple[ScoreRecord, ...]] = {}
    for job, documents in scores_of(store.engine, tuple(digests)).items():
        records = (from_json(ScoreRecord, document, source=job) for document in documents)
        current = tuple(
            record for record in records if all(digests[job].get(run) == sha for run, sha in record.outputs.items())
        )
        scores |= {job: current} if current else {}
    return scores


def in_store(store: Store) -> Find:
    """Finds the files of runs in a store; a damaged one is refused."""

    def find(digest: str) -> Path:
        if not store.artefacts.is_whole(digest):
            message = "the kept answers are missing or damaged"
            remedy = "restore the file from a copy"
            raise MeasureError(message, code="outputs", at=str(store.artefacts.path(digest)), try_=remedy)
        return store.artefacts.path(digest)

    return find


def scores_json(results: Sequence[MultiRunJobResult], scores: dict[str, tuple[ScoreRecord, ...]]) -> str:
    """Scores beside the metrics of the results, as one JSON document."""
    from assay.documents import to_plain

    jobs = [
        {
            "job": result.job,
            "scores": [to_plain(score) for score in scores.get(result.job, ())],
            "metrics": {name: to_plain(stats) for name, stats in result.metrics.items()},
        }
        for result in results
    ]
    return json.dumps({"schema": "assay.scores/1", "jobs": jobs}, indent=2)


def _record(job: str, scorer: str, now: str, judged: dict[int, Scores], runs: dict[int, str]) -> ScoreRecord:
    values = {run: scores.values for run, scores in judged.items() if scores.values}
    absent = {run: scores.absent[scorer] for run, scores in judged.items() if scorer in scores.absent}
    if not values:
        raise MeasureError(next(iter(absent.values()), f"the scorer {scorer!r} gave no score"), code="scorer", at=job)
    return ScoreRecord(job, scorer, scorer_version(scorer), now, qualities(values), absent, runs)

"""Scores: kept answers judged again by the server; the result itself stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from fastapi import APIRouter

from assay.analyse.scores import ScoreRecord
from assay.api.rescore import in_store, keep_scores, kept_scores, rescore, scorers_of
from assay.serve.logs import tell
from assay.serve.state import ServerState
from assay.serve.web.access import User, readers, users
from assay.serve.web.parameters import JobId, State
from assay.serve.web.problems import RequestProblem
from assay.serve.web.reading import job_result
from assay.serve.web.records import Listed

router = APIRouter(prefix="/api/v1/jobs/{job}/scores", tags=["jobs"])

_MOST_SCORERS = 20
_turns: RunVar[anyio.CapacityLimiter] = RunVar("turns of scoring")


@dataclass(frozen=True, slots=True)
class Judging:
    """Who is to judge."""

    scorers: tuple[str, ...] = ()
    """Names of scorers that the server has; those of the benchmark when empty."""


@router.get("", dependencies=[readers])
def list_scores(job: JobId, state: State) -> Listed[ScoreRecord]:
    """List the scores that were computed of a job's answers after its result, oldest first."""
    result = job_result(state.kept, state.kept.listing.job(job))
    return Listed(kept_scores(state.kept.store, [result]).get(job, ()))


@router.post("", dependencies=[users], status_code=201)
async def compute_scores(job: JobId, judging: Judging, state: State, by: User) -> Listed[ScoreRecord]:
    """Judge the kept answers of a job, and keep what came out with its date; nothing is measured again."""
    if len(judging.scorers) > _MOST_SCORERS:
        raise RequestProblem(422, f"at most {_MOST_SCORERS} scorers can be asked at once", code="request", at="scorers")
    records = await anyio.to_thread.run_sync(lambda: _compute(state, job, judging), limiter=_one_at_a_time())
    tell("answers scored", job=job, scorers=",".join(one.scorer for one in records), by=by.name)
    return Listed(records)


def _one_at_a_time() -> anyio.CapacityLimiter:
    """Judging is arithmetic in Python: two at once would only slow each other, and everybody else."""
    try:
        return _turns.get()
    except LookupError:
        _turns.set(limiter := anyio.CapacityLimiter(1))
        return limiter


def _compute(state: ServerState, job: str, judging: Judging) -> tuple[ScoreRecord, ...]:
    kept = state.kept
    result = job_result(kept, kept.listing.job(job))
    records = rescore(result, in_store(kept.store), scorers_of(result, judging.scorers), state.clock)
    keep_scores(kept.store, records)
    return records

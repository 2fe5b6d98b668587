"""A result document of an agent becomes a result of ours: what only the server knows is put back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from pydantic import ValidationError

from assay.alert.ingest import observe_job
from assay.analyse.records import MultiRunJobResult
from assay.documents import adapter, to_json
from assay.place.fleet.protocol import Delivered
from assay.plan.job import Job
from assay.plan.lifecycle import Event
from assay.report.wording import failure_of, failure_sentence
from assay.serve.intake.files import missing, take_as_files, take_as_samples
from assay.serve.logs import tell, tell_failure
from assay.serve.state import Kept, ServerState
from assay.serve.web.problems import RequestProblem
from assay.store.artefacts import left_by, note_left
from assay.store.database import writing

_LONGEST_REASON = 1000
_ENDED = ("done", "failed")


def deliver(state: ServerState, job_id: str, fence: int, agent: str, body: bytes) -> Delivered:
    """Take a result, once.

    Raises:
        RequestProblem: 422 if it is no result document, 409 if samples or files that it names are not here; the
            lease stays.
        UsageError: `unknown-job` if there is no such job.
    """
    kept = state.kept
    job = kept.listing.job(job_id).job
    result = restored(parsed(body), job)
    left = _files_of(state, job_id, result)
    word = kept.control.deliver(
        job_id,
        fence,
        agent,
        event="finish" if result.state == "done" else "fail",
        verdict=result.verdict,
        result=to_json(result),
        runs=result.runs,
        reason=_reason(result),
    )
    if word != "unknown":
        _note_files(kept, job_id, fence, left)
    state.metrics.deliveries.labels(word).inc()
    tell("result delivered", job=job_id, fence=fence, agent=agent, word=word, state=result.state)
    if word == "accepted":
        _watch(state, job, result)
    state.changed(jobs=False)
    return Delivered(word)


def deliver_told(state: ServerState, job_id: str, body: bytes) -> Delivered:
    """Take the result of a job that was measured elsewhere, once.

    Raises:
        RequestProblem: 422 if it is no result document, 409 if samples or files that it names are not here.
        UsageError: `unknown-job` if nobody told of such a job.
    """
    kept = state.kept
    job = kept.listing.job(job_id).job
    result = restored(parsed(body, (*_ENDED, "cancelled")), job)
    left = _files_of(state, job_id, result)
    events: dict[str, Event] = {"done": "finish", "cancelled": "cancel"}
    word = kept.control.keep_told(
        job_id,
        event=events.get(result.state, "fail"),
        verdict=result.verdict,
        result=to_json(result),
        runs=result.runs,
        reason=_reason(result),
    )
    _note_files(kept, job_id, 0, left)
    tell("result told", job=job_id, word=word, state=result.state)
    if word == "accepted":
        _watch(state, job, result)
    state.changed(jobs=False)
    return Delivered(word)


def _files_of(state: ServerState, job_id: str, result: MultiRunJobResult) -> dict[str, str]:
    """The files that the runs of a result left, which must be here, as its samples must."""
    kept = state.kept
    samples = [run.samples for run in result.runs if run.samples]
    _refuse_missing(kept, samples, f"samples of {job_id}")
    left = left_by(result.runs)
    _refuse_missing(kept, left.values(), f"a file that {job_id} left")
    take_as_samples(kept.store, samples, state.settings.max_samples)
    take_as_files(kept.store, left.values())
    return left


def _note_files(kept: Kept, job_id: str, fence: int, left: dict[str, str]) -> None:
    if left:
        with writing(kept.store.engine) as session:
            note_left(session, kept.store.artefacts, job_id, fence, left)


def _reason(result: MultiRunJobResult) -> str:
    failure = failure_of(result) if result.state == "failed" else None
    return failure_sentence(failure)[:_LONGEST_REASON] if failure else ""


def _watch(state: ServerState, job: Job, result: MultiRunJobResult) -> None:
    """Take the result into its series; it is kept and stays accepted, whatever comes of that."""
    try:
        observe_job(state.kept.store, job, result, state.clock)
    except Exception as problem:
        tell_failure("series not updated", problem, job=job.id)


def _refuse_missing(kept: Kept, digests: Iterable[str], what: str) -> None:
    if lacking := missing(kept.store, digests):
        raise missing_artefacts(dict.fromkeys(lacking, what))


def parsed(body: bytes, states: Collection[str] = _ENDED) -> MultiRunJobResult:
    """Read a result document that has ended.

    Raises:
        RequestProblem: if it is none.
    """
    try:
        result = adapter(MultiRunJobResult).validate_json(body)
    except ValidationError as invalid:
        errors = [
            {"message": one["msg"], "at": ".".join(map(str, one["loc"]))}
            for one in invalid.errors(include_url=False, include_input=False, include_context=False)[:20]
        ]
        raise RequestProblem(422, "this is not a result document", code="result", errors=errors) from None
    if result.state not in states:
        raise RequestProblem(
            422, f"a result is {' or '.join(states)}, this one is {result.state}", code="result", at="state"
        )
    numbers = [run.run_id for run in result.runs]
    if len(set(numbers)) < len(numbers) or any(not 0 <= number < 2**31 for number in numbers):
        raise RequestProblem(422, "runs are numbered from 0, each once", code="result", at="runs.run_id")
    return result


def restored(result: MultiRunJobResult, job: Job) -> MultiRunJobResult:
    """A result under the name and definition that the server gave its job: an agent may rename nothing."""
    definition = job.definition.model_dump(mode="json", exclude_defaults=True)
    return replace(result, job=job.id, digest=job.digest, index=job.index, point=job.point, definition=definition)


def missing_artefacts(lacking: dict[str, str]) -> RequestProblem:
    """The error for files that have to be uploaded first."""
    errors = [
        {"message": f"{what} is not here", "code": "missing-artefact", "sha256": digest, "at": what}
        for digest, what in lacking.items()
    ]
    return RequestProblem(
        409,
        f"{len(lacking)} file{'' if len(lacking) == 1 else 's'} must be uploaded first",
        code="missing-artefact",
        try_="PUT /api/v1/artefacts/{sha256}, then ask again",
        errors=errors,
    )

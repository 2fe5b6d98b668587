"""Results and files that come in: a result document of an agent is completed with what only the server knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.alert.ingest import observe_job
from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import Delivered, DeliveryWord
from assay.plan.job import Event, Job
from assay.report.wording import failure_sentence
from assay.serve.observability import log_event, log_failure
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.problems import RequestProblem, read_body
from assay.store.artefacts import checked_digest, left_by, note_left
from assay.store.database import writing
from assay.store.samples import check_samples
from assay.store.store import Store

_LONGEST_REASON = 1000
_ENDED = ("done", "failed")


def held(store: Store, digest: str) -> Path | None:
    """Where the file with a content hash lies, among uploads and samples; None when there is none."""
    here = _here(store, digest)
    if here is not None or store.backing is None:
        return here
    return store.artefacts.find(digest) or store.samples.find(digest)


def known_size(store: Store, digest: str) -> int | None:
    """Bytes of a file, among uploads and samples; None when it has to be sent here.

    That is also so while it is not known whether the object store has it: the sender sends it once more, and
    no one has to wait for the object store.
    """
    for path in _places(store, digest):
        with suppress(FileNotFoundError):
            return path.stat().st_size
    with suppress(StoreError):
        facts = store.artefacts.facts(digest) or store.samples.facts(digest)
        return None if facts is None else facts.size_bytes
    return None


def missing(store: Store, digests: Iterable[str]) -> tuple[str, ...]:
    """Those of some files that have to be sent here."""
    return tuple(digest for digest in dict.fromkeys(digests) if known_size(store, digest) is None)


def take_as_samples(store: Store, digests: Iterable[str], most: int) -> None:
    """Move uploads to where the samples of runs lie; those that lie there already stay.

    Another delivery may move the same file at any moment: the same content, or the same request once more.

    Raises:
        UsageError: `sample-file` if one holds no samples, or too many; then none is moved.
    """
    new = [digest for digest in dict.fromkeys(digests) if not store.samples.path(digest).is_file()]
    uploads = {digest: upload for digest in new if (upload := _upload(store, digest)) is not None}
    for digest, upload in uploads.items():
        try:
            check_samples(upload, digest, most)
        except UsageError:
            if not store.samples.path(digest).is_file():
                raise
    for digest, upload in uploads.items():
        store.samples.adopt(digest, upload)
        store.artefacts.remove(digest)


def take_as_files(store: Store, digests: Iterable[str]) -> None:
    """Keep samples among the uploads too, where a run left the same content as a file."""
    for digest in dict.fromkeys(digests):
        if store.artefacts.path(digest).is_file():
            continue
        if store.samples.path(digest).is_file() or store.artefacts.facts(digest) is None:
            same = store.samples.find(digest)
            if same is not None:
                store.artefacts.take(same)


def _here(store: Store, digest: str) -> Path | None:
    """The file on this machine, among uploads and samples."""
    return next((path for path in _places(store, digest) if path.is_file()), None)


def _places(store: Store, digest: str) -> tuple[Path, Path]:
    """Where a file may lie. Files move from the first to the second, so that looked at in this order none is missed."""
    checked_digest(digest)
    return store.artefacts.path(digest), store.samples.path(digest)


def _upload(store: Store, digest: str) -> Path | None:
    """An upload on this machine; one that another server took is fetched, unless its samples are there already."""
    path = store.artefacts.path(digest)
    if path.is_file():
        return path
    if store.backing is None or store.samples.facts(digest) is not None:
        return None
    return store.artefacts.find(digest)


def deliver(state: ServerState, job_id: str, fence: int, agent: str, body: bytes) -> Delivered:
    """Take a result, once.

    Raises:
        RequestProblem: 422 if it is no result document, 409 if samples or files that it names are not here; the
            lease stays.
        UsageError: `unknown-job` if there is no such job.
    """
    store = state.kept
    job = store.listing.job(job_id).job
    result, left = _complete(state, job, parsed(body))
    event: Event = "finish" if result.state == "done" else "fail"
    word = store.control.deliver(job_id, fence, agent, event=event, **_outcome(result))
    if word != "unknown":
        _note_files(store, job_id, fence, left)
    state.metrics.deliveries.labels(word).inc()
    log_event("result delivered", job=job_id, fence=fence, agent=agent, word=word, state=result.state)
    return _answered(state, job, result, word)


def deliver_reported(state: ServerState, job_id: str, body: bytes) -> Delivered:
    """Take the result of a job that was measured elsewhere, once.

    Raises:
        RequestProblem: 422 if it is no result document, 409 if samples or files that it names are not here.
        UsageError: `unknown-job` if no such job was reported.
    """
    store = state.kept
    job = store.listing.job(job_id).job
    result, left = _complete(state, job, parsed(body, (*_ENDED, "cancelled")))
    events: dict[str, Event] = {"done": "finish", "cancelled": "cancel"}
    word = store.control.keep_reported(job_id, event=events.get(result.state, "fail"), **_outcome(result))
    _note_files(store, job_id, 0, left)
    log_event("result reported", job=job_id, word=word, state=result.state)
    return _answered(state, job, result, word)


def _complete(state: ServerState, job: Job, sent: MultiRunJobResult) -> tuple[MultiRunJobResult, dict[str, str]]:
    """A result under the server's own words for its job, and the files that its runs left, which must be here."""
    result = restored(sent, job)
    return result, _files_of(state, job.id, result)


def _outcome(result: MultiRunJobResult) -> dict[str, Any]:
    failure = result.failure if result.state == "failed" else None
    reason = failure_sentence(failure)[:_LONGEST_REASON] if failure else ""
    return {"verdict": result.verdict, "result": to_json(result), "runs": result.runs, "reason": reason}


def _answered(state: ServerState, job: Job, result: MultiRunJobResult, word: DeliveryWord) -> Delivered:
    if word == "accepted":
        try:
            observe_job(state.kept.store, job, result, state.clock)
        except Exception as problem:  # it is kept and stays accepted, whatever comes of its series
            log_failure("series not updated", problem, job=job.id)
    state.changed(jobs=False)
    return Delivered(word)


def _files_of(state: ServerState, job_id: str, result: MultiRunJobResult) -> dict[str, str]:
    """The files that the runs of a result left, which must be here, as its samples must."""
    store = state.kept
    samples = [run.samples for run in result.runs if run.samples]
    _refuse_missing(store, samples, f"samples of {job_id}")
    left = left_by(result.runs)
    _refuse_missing(store, left.values(), f"a file that {job_id} left")
    take_as_samples(store.store, samples, state.settings.max_samples)
    take_as_files(store.store, left.values())
    return left


def _note_files(kept: ServerStore, job_id: str, fence: int, left: dict[str, str]) -> None:
    if left:
        with writing(kept.store.engine) as session:
            note_left(session, kept.store.artefacts, job_id, fence, left)


def _refuse_missing(kept: ServerStore, digests: Iterable[str], what: str) -> None:
    if lacking := missing(kept.store, digests):
        raise missing_artefacts(dict.fromkeys(lacking, what))


def parsed(body: bytes, states: Collection[str] = _ENDED) -> MultiRunJobResult:
    """Read a result document that has ended."""
    result = read_body(MultiRunJobResult, body, "result document", "result")
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

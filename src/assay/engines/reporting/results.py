"""One result on its way from a store to a server: its samples and files first, then the document that names them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.errors import UsageError
from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import DeliveryWord
from assay.report.reading import read_job
from assay.run.records import SingleRunResult
from assay.store.listing import Listing
from assay.store.records import StoredJob
from assay.store.store import Store

_TOO_LARGE = "too-large"


def result_of(store: Store, job_id: str) -> MultiRunJobResult:
    """The result of a job that has ended, as a store keeps it.

    Raises:
        UsageError: if there is no such job.
    """
    found = Listing(store.engine).job(job_id)
    return read_job(StoredJob(found.job, found.summary.state, found.result, found.summary.reason), store.runs)


def digest_of(result: MultiRunJobResult) -> str:
    """What tells two results of one job apart."""
    return hashlib.sha256(to_json(result).encode()).hexdigest()


def send_result(client: FleetClient, store: Store, campaign: str, result: MultiRunJobResult) -> DeliveryWord:
    """Hand a result over with everything that belongs to it; sent again, it changes nothing.

    Raises:
        RefusedError: if the server will not take it.
        AwayError: if the server does not answer.
    """
    whole = replace(result, runs=tuple(_sent(client, store, run) for run in result.runs))
    return client.tell_result(campaign, result.index, to_json(whole)).delivery


def _sent(client: FleetClient, store: Store, run: SingleRunResult) -> SingleRunResult:
    """A run whose samples and files the server has; a file that it cannot have is left out, and the run says why."""
    if run.samples:
        client.upload(store.samples.path(run.samples), run.samples, patience_s=0)
    files, absent = {}, dict(run.absent)
    for name, digest in run.files.items():
        why = _left_out(client, store.artefacts.path(digest), digest)
        if why:
            absent[name] = why
        else:
            files[name] = digest
    return replace(run, files=files, absent=absent)


def _left_out(client: FleetClient, path: Path, digest: str) -> str:
    """Send a file; why the server does not have it, empty where it does."""
    try:
        client.upload(path, digest, patience_s=0)
    except FileNotFoundError:
        return "its file is missing in the store"
    except RefusedError as problem:
        if problem.problem.code != _TOO_LARGE:
            raise
        return f"the server did not take it: {problem.problem.message}"
    return ""


def refused_in_words(index: int, problem: UsageError) -> str:
    """What a person must know of a result that a server will not take."""
    return f"the server does not take the result of job {index}: {problem.problem.message}; it is kept here"

"""Results read back from the store: a campaign, or one job, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.documents import from_json
from assay.plan.job import Job
from assay.plan.lifecycle import FINAL, State
from assay.run.records import Failure, SingleRunResult
from assay.store.records import StoredJob
from assay.store.store import Store
from assay.version import __version__

Runs = Callable[[str], tuple[SingleRunResult, ...]]


def read_campaign(store: Store, campaign: str) -> CampaignRecord:
    """A campaign's results as they are now, finished or not."""
    summary, jobs = store.campaign(campaign)
    return CampaignRecord(
        campaign=summary.id,
        benchmark=summary.benchmark,
        created_at=summary.created_at,
        state=summary.state,
        jobs=tuple(read_job(stored, store.runs) for stored in jobs),
        labels=summary.labels,
        assay_version=__version__,
    )


def read_job(stored: StoredJob, runs: Runs) -> MultiRunJobResult:
    """A job's result, or what is known of one that has none."""
    if stored.result is not None:
        return from_json(MultiRunJobResult, stored.result, source=stored.job.id)
    return without_result(stored.job, stored.state, stored.reason, runs(stored.job.id))


def without_result(job: Job, state: State, reason: str, runs: tuple[SingleRunResult, ...]) -> MultiRunJobResult:
    """What is known of a job that has no result document: not yet, or never."""
    return MultiRunJobResult(
        job=job.id,
        digest=job.digest,
        index=job.index,
        point=job.point,
        state=state,
        verdict=None,
        checks=(),
        gates=(),
        metrics={},
        runs=runs,
        total_runs=job.definition.measure.runs,
        successful_runs=sum(run.error is None for run in runs),
        failed_runs=sum(run.error is not None for run in runs),
        cold_start={},
        environment={},
        definition=job.definition.model_dump(mode="json", exclude_defaults=True),
        error=Failure(state, reason) if reason and state in FINAL else None,
    )


def file_reader(store: Store) -> Callable[[str, int, str], bytes | None]:
    """Reads a file that a run left, by job, run and name, for a report; None where there is none."""

    def read(job: str, run: int, name: str) -> bytes | None:
        path = store.file_of(job, run, name)
        return None if path is None else path.read_bytes()

    return read

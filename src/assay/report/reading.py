"""Results read back from the store: a campaign, or one job, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable

from assay.analyse.records import CampaignRecord, MultiRunJobResult, unmeasured_result
from assay.documents import from_json
from assay.plan.lifecycle import FINAL
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
    ended = stored.reason and stored.state in FINAL
    error = Failure(stored.state, stored.reason) if ended else None
    return unmeasured_result(stored.job, stored.state, error, runs=runs(stored.job.id))


def file_reader(store: Store) -> Callable[[str, int, str], bytes | None]:
    """Reads a file that a run left, by job, run and name, for a report; None where there is none."""

    def read(job: str, run: int, name: str) -> bytes | None:
        path = store.file_of(job, run, name)
        return None if path is None else path.read_bytes()

    return read

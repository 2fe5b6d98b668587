"""The results of one campaign as a user holds them: every report, every sample, every file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.analyse.records import CampaignRecord, MultiRunJobResult, unmeasured_result
from assay.documents import from_json
from assay.plan.job import FINAL
from assay.run.records import Failure, SampleSet, SingleRunResult
from assay.store.records import StoredJob
from assay.store.store import Store
from assay.version import __version__

if TYPE_CHECKING:
    from assay.store.telemetry import Recording


def _no_file(_job: str, _run: int, _name: str) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """The results of one campaign, with a way back to every sample."""

    record: CampaignRecord
    address: str
    """Where it is kept: the folder of a store, or the URL of a server."""
    read_samples: Callable[[str, int], tuple[SampleSet, ...]] = field(repr=False)
    read_file: Callable[[str, int, str], bytes | None] = field(default=_no_file, repr=False)

    @property
    def jobs(self) -> tuple[MultiRunJobResult, ...]:
        """The results, one per job."""
        return self.record.jobs

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]:
        """Every sample of one run."""
        return self.read_samples(job, run)

    def file(self, job: str, run: int, name: str) -> bytes | None:
        """A file that a run left, such as `outputs.jsonl.gz`; None where it left none of that name."""
        return self.read_file(job, run, name)

    def telemetry(self, job: str, run: int) -> Recording | None:
        """What another process saw of one run, in columns; None without telemetry."""
        from assay.run.probes import FILE
        from assay.store.telemetry import read_telemetry

        content = self.file(job, run, FILE)
        return None if content is None else read_telemetry(content)

    def to_json(self) -> str:
        from assay.report.export import result_json

        return result_json(self.record)

    def to_csv(self) -> str:
        """One row per job; the first 25 columns are SARK's."""
        from assay.report.export import render_csv

        return render_csv(self.record)

    def to_markdown(self) -> str:
        """A report in Markdown."""
        from assay.report.markdown import render_markdown

        return render_markdown(self.record)

    def to_html(self) -> str:
        """A report with pictures in one self-contained file."""
        from assay.report.html import render_html

        return render_html(self.record, self.samples, self.file)

    def __str__(self) -> str:
        from assay.report.terminal import render_answer

        return render_answer(self.record)

    def _repr_html_(self) -> str:
        from assay.report.html import fragment_html

        return fragment_html(self.record)


def kept_result(place: Path, record: CampaignRecord) -> CampaignResult:
    """Results with a way back to every sample and file in the store of a folder, opened when it is asked."""

    def samples(job: str, run: int) -> tuple[SampleSet, ...]:
        with closing(Store(place)) as store:
            return store.samples_of(job, run)

    def file(job: str, run: int, name: str) -> bytes | None:
        with closing(Store(place)) as store:
            return file_reader(store)(job, run, name)

    return CampaignResult(record, str(place), samples, file)


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

"""What references name, read: the results of one side of a comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from assay.analyse.compare.limits import ByRun, statistic_of_run
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.documents import from_json
from assay.errors import UsageError
from assay.files import read_bounded
from assay.run.records import SampleSet
from assay.store.references import MARKS, Most, NoSuchResultError, References, ResultIndex, ResultReference, is_file

# A document of this size holds thousands of jobs.
_LARGEST = 512 * 2**20


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the results that somebody named, the newest first."""

    references: tuple[str, ...]
    """As they were written."""
    records: tuple[CampaignRecord, ...]
    names: tuple[str, ...]
    """What each record is called: the id of a campaign, or a file; with the job where one was named."""
    whole: bool = True
    """Whether campaigns were named, and no single jobs of them."""

    @property
    def benchmark(self) -> str:
        """The benchmark of the newest result; empty where it is not known."""
        return self.records[0].benchmark if self.records else ""


class ResultSource(ResultIndex, Protocol):
    """Where results are read that references name."""

    def record(self, campaign: str) -> CampaignRecord: ...

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]: ...


class Reader:
    """Reads what references name; opens the source at the first that needs it: files need none."""

    def __init__(
        self, open_source: Callable[[], AbstractContextManager[ResultSource]], repository: Path | None = None
    ) -> None:
        self._open = open_source
        self._stack = ExitStack()
        self._source: ResultSource | None = None
        self._references = References(self.source, repository=repository)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def source(self) -> ResultSource:
        """The source, opened once."""
        if self._source is None:
            self._source = self._stack.enter_context(self._open())
        return self._source

    def side(
        self, references: Sequence[str], *, benchmark: str = "", most: Most = None, but: Collection[str] = ()
    ) -> Side:
        """Read the results of some references.

        Args:
            benchmark: Labels and commits are looked for among the campaigns of this benchmark alone.
            most: How many of those that a label, a commit or a folder names.

        Raises:
            NoSuchResultError: if a reference names nothing that is there.
            UsageError: if it is badly written, names several, or names a file that is no result.
        """
        find = self._references.find
        named = [one for text in references for one in find(text, benchmark=benchmark, most=most, but=but)]
        distinct = list(dict.fromkeys(named))
        read = [(record, one) for one in distinct if (record := self._read(one)).campaign not in but]
        if not read:
            message = f"{', '.join(references)} names nothing but the result itself"
            raise NoSuchResultError(message, try_="name an earlier result")
        read.sort(key=lambda pair: pair[0].created_at, reverse=True)
        return Side(
            tuple(references),
            tuple(record for record, _ in read),
            tuple(str(one) for _, one in read),
            whole=all(one.job is None for one in distinct),
        )

    def samples(self, job: str, run: int) -> tuple[SampleSet, ...]:
        """The samples of a run; none where only a document of it is at hand."""
        return () if self._source is None else self._source.samples(job, run)

    def _read(self, named: ResultReference) -> CampaignRecord:
        record = read_document(named.path) if named.path else self.source().record(named.campaign)
        if named.job is None:
            return record
        chosen = tuple(job for job in record.jobs if job.index == named.job)
        if not chosen:
            numbers = [job.index for job in record.jobs]
            raise UsageError(
                f"{replace(named, job=None)} has no job {named.job}",
                code="unknown-job",
                try_=f"use {min(numbers)} to {max(numbers)}" if numbers else "",
            )
        return replace(record, jobs=chosen)


def read_document(path: Path) -> CampaignRecord:
    """Read a result document: of a campaign, or of one job as `assay exec` writes it.

    Raises:
        UsageError: if it is neither.
    """
    try:
        text = read_bounded(path, _LARGEST)
    except OSError as problem:
        raise UsageError(f"cannot read the result: {problem.strerror}", code="no-file", at=str(path)) from None
    if _is_job(text):
        job = from_json(MultiRunJobResult, text, source=str(path))
        return CampaignRecord(job.job, "", job.completed_at or "", job.state, (job,))
    return from_json(CampaignRecord, text, source=str(path))


def _is_job(text: bytes) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "runs" in document and "jobs" not in document


def names_itself(reference: str) -> bool:
    """Whether a reference itself says which result is meant, whatever the benchmark."""
    return is_file(reference) or not reference.startswith(MARKS)


def by_run_of(reader: Reader) -> ByRun:
    """What each run of a job gave of a statistic, from its samples; nothing where a run does not back it."""

    def by_run(job: MultiRunJobResult, metric: str, statistic: str) -> Mapping[int, float]:
        runs = [run.run_id for run in job.runs if run.error is None]
        found = {run: statistic_of_run(reader.samples(job.job, run), metric, statistic) for run in runs}
        known = {run: value for run, value in found.items() if value is not None}
        # Some of the runs would be another set of runs than the one that the result speaks of.
        return known if len(known) == len(found) else {}

    return by_run

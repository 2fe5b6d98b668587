"""Results across jobs: in lines, as a matrix, and raw."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from assay.documents import to_json
from assay.report.reading import read_campaign
from assay.run.records import SingleRunResult
from assay.serve.state import Kept
from assay.serve.web.access import readers
from assay.serve.web.parameters import Answers, Cursor, Limit, State, Text, WantedJobs
from assay.serve.web.reading import ComparisonMatrix, ResultView, comparison, result_view
from assay.serve.web.records import Listed
from assay.store.artefacts import plain_name

router = APIRouter(prefix="/api/v1/results", tags=["results"])

_PART = 1 << 20
Campaigns = Annotated[list[str], Query(min_length=1, max_length=20, description="May be given several times.")]
_FILES: Answers = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}},
                      "application/x-ndjson": {"schema": {"type": "string"}}}}
}  # fmt: skip


@router.get("", dependencies=[readers])
def list_results(
    state: State,
    which: WantedJobs,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listed[ResultView]:
    """List results: the headline metrics of each job with their intervals, and its verdict."""
    page = state.kept.listing.results(which, cursor=cursor, limit=limit)
    return Listed(tuple(map(result_view, page.items)), page.next)


@router.get("/matrix", dependencies=[readers])
def get_matrix(
    campaign: Campaigns, state: State, metric: Text = "", rows: Text = "", columns: Text = ""
) -> ComparisonMatrix:
    """Compare one metric across configurations: every cell against the first, with three answers."""
    return comparison(state.kept, campaign, metric, rows, columns)


@router.get("/export", dependencies=[readers], response_class=StreamingResponse, responses=_FILES)
def export_results(
    campaign: Campaigns, state: State, form: Annotated[Literal["zip", "ndjson"], Query(alias="format")] = "zip"
) -> StreamingResponse:
    """Export raw records: one result a line, or a ZIP of result documents with all samples and files of their runs."""
    kept = state.kept
    for one in campaign:
        kept.listing.campaign(one)
    name = campaign[0] if len(campaign) == 1 else "results"
    headers = {"Content-Disposition": f'attachment; filename="{_plain(name)}.{form}"'}
    content = _lines(kept, campaign) if form == "ndjson" else _zipped(kept, campaign)
    kind = "application/x-ndjson" if form == "ndjson" else "application/zip"
    return StreamingResponse(content, media_type=kind, headers=headers)


def _plain(name: str) -> str:
    return "".join(char for char in name if char.isalnum() or char in "-_") or "results"


def _lines(kept: Kept, campaigns: list[str]) -> Iterator[bytes]:
    for campaign in campaigns:
        for job in read_campaign(kept.store, campaign).jobs:
            yield to_json(job).encode() + b"\n"


def _zipped(kept: Kept, campaigns: list[str]) -> Iterator[bytes]:
    """A ZIP, made while it is sent: samples are large and are read one at a time."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for campaign in campaigns:
            record = read_campaign(kept.store, campaign)
            archive.writestr(f"{record.campaign}/result.json", to_json(record, indent=2))
            yield sink.taken()
            for job in record.jobs:
                for run in job.runs:
                    path = kept.store.samples.find(run.samples) if run.samples else None
                    if path is not None:
                        name = f"{record.campaign}/samples/job-{job.index}-run-{run.run_id}.parquet"
                        archive.writestr(zipfile.ZipInfo(name), path.read_bytes())  # packed already
                        yield sink.taken()
                    yield from _files(kept, archive, sink, f"{record.campaign}/files/job-{job.index}-run-", run)
    yield sink.taken()


def _files(kept: Kept, archive: zipfile.ZipFile, sink: _Sink, place: str, run: SingleRunResult) -> Iterator[bytes]:
    """The files that a run left, each in parts: they may be large."""
    for name, digest in run.files.items():
        path = kept.store.artefacts.find(digest)
        if path is not None:
            entry = zipfile.ZipInfo(f"{place}{run.run_id}-{plain_name(name)}")
            with path.open("rb") as source, archive.open(entry, "w") as target:
                while block := source.read(_PART):
                    target.write(block)
                    yield sink.taken()


class _Sink(io.RawIOBase):
    """Where a ZIP is written to; what was written is taken away bit by bit."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401  (any buffer)
        self._parts.append(bytes(content))
        return len(content)

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)

"""A campaign whose loads were shared by several machines: its parts read back and put together, point by point."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from assay.analyse.merge import PartResult, PartRun, merge_point
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.plan.job import Job, content_hash, point_key, whole
from assay.report.result import CampaignResult
from assay.run.load.http.recording import REQUESTS, read_requests
from assay.run.records import RunOutcome, SampleSet
from assay.spec.benchmark import Definition


@dataclass(frozen=True, slots=True)
class MergedCampaign:
    """A campaign with the results of its shared loads."""

    beside_parts: CampaignResult
    """Every job; before the parts of a load, what they are together."""
    alone: CampaignRecord
    """The same without the parts: what the campaign says about its points."""


def merge(result: CampaignResult) -> MergedCampaign | None:
    """Put the parts of each shared load together; None where no load was shared."""
    groups = _shared(result)
    if not groups:
        return None
    rows: list[MultiRunJobResult] = []
    points: list[MultiRunJobResult] = []
    outcomes: dict[str, tuple[RunOutcome, ...]] = {}
    parts = {part.job for group in groups.values() for part, _ in group}
    for job_result in result.jobs:
        if job_result.job in groups:
            point, outcomes_of = _merged(result, groups[job_result.job], len(result.jobs) + len(outcomes))
            outcomes[point.job] = outcomes_of
            rows += [point, *(part for part, _ in groups[job_result.job])]
            points.append(point)
        elif job_result.job not in parts:
            rows.append(job_result)
            points.append(job_result)
    return MergedCampaign(_view(result, tuple(rows), outcomes), replace(result.record, jobs=tuple(points)))


def beside_parts(result: CampaignResult) -> CampaignResult:
    """The campaign, with what the parts of its shared loads are together; unchanged where there are none."""
    merged = merge(result)
    return result if merged is None else merged.beside_parts


def _shared(result: CampaignResult) -> dict[str, list[tuple[MultiRunJobResult, Job]]]:
    """The first part of each shared load → all its parts; a part that was asked for by itself is no such load."""
    groups: dict[str, list[tuple[MultiRunJobResult, Job]]] = {}
    for job_result in result.jobs:
        load = job_result.definition.get("load")
        if isinstance(load, dict) and load.get("hosts", 1) != 1 and load.get("host") is not None:
            job = _job(result.record, job_result)
            groups.setdefault(point_key(job), []).append((job_result, job))
    return {parts[0][0].job: parts for parts in groups.values() if _is_whole([job for _, job in parts])}


def _is_whole(parts: list[Job]) -> bool:
    return {job.definition.load.host for job in parts} == set(range(parts[0].definition.load.hosts))


def _merged(
    result: CampaignResult, parts: list[tuple[MultiRunJobResult, Job]], index: int
) -> tuple[MultiRunJobResult, tuple[RunOutcome, ...]]:
    digest = content_hash([part.digest for part, _ in parts])
    point = replace(whole(parts[0][1]), digest=digest, index=index)
    return merge_point(point, [_part(result, job, part) for part, job in parts])


def _job(record: CampaignRecord, result: MultiRunJobResult) -> Job:
    definition = Definition.model_validate_json(json.dumps(result.definition))
    return Job(
        benchmark=record.benchmark,
        digest=result.digest,
        index=result.index,
        definition=definition,
        point=result.point,
        campaign=record.campaign,
    )


def _part(campaign: CampaignResult, job: Job, result: MultiRunJobResult) -> PartResult:
    host = job.definition.load.host or 0
    runs = []
    for run in result.runs:
        content = campaign.file(result.job, run.run_id, REQUESTS) if REQUESTS in run.files else None
        requests = None if content is None else read_requests(content)
        samples = campaign.samples(result.job, run.run_id) if run.error is None else ()
        runs.append(PartRun(host, run, samples, requests))
    return PartResult(host, result, tuple(runs))


def _view(
    result: CampaignResult, rows: tuple[MultiRunJobResult, ...], outcomes: Mapping[str, tuple[RunOutcome, ...]]
) -> CampaignResult:
    def samples(job: str, run: int) -> tuple[SampleSet, ...]:
        if job not in outcomes:
            return result.samples(job, run)
        return next((outcome.samples for outcome in outcomes[job] if outcome.result.run_id == run), ())

    return replace(result, record=replace(result.record, jobs=rows), read_samples=samples)

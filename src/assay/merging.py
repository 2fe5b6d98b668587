"""A campaign whose loads were shared by several machines: its parts read back and put together, point by point."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from assay.analyse.merge import Part, PartRun, merge_point
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.campaign import CampaignResult
from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.parts import point_key, whole
from assay.run.load.requests import REQUESTS, read_requests
from assay.run.records import RunOutcome, SampleSet
from assay.spec.benchmark import Definition


@dataclass(frozen=True, slots=True)
class Merged:
    """A campaign with the results of its shared loads."""

    beside_parts: CampaignResult
    """Every job; before the parts of a load, what they are together."""
    alone: CampaignRecord
    """The same without the parts: what the campaign says about its points."""


def merge(result: CampaignResult) -> Merged | None:
    """Put the parts of each shared load together; None where no load was shared.

    Raises:
        MeasureError: if the requests that a run left cannot be read.
    """
    jobs = {one.job: _job(result.record, one) for one in result.jobs if _is_part(one)}
    if not jobs:
        return None
    keys = {name: point_key(job) for name, job in jobs.items()}
    rows: list[MultiRunJobResult] = []
    points: list[MultiRunJobResult] = []
    outcomes: dict[str, tuple[RunOutcome, ...]] = {}
    done: set[str] = set()
    for one in result.jobs:
        if one.job not in jobs:
            rows.append(one)
            points.append(one)
        elif keys[one.job] not in done:
            done.add(keys[one.job])
            parts = [other for other in result.jobs if keys.get(other.job) == keys[one.job]]
            digest = content_hash([part.digest for part in parts])
            point = replace(whole(jobs[one.job]), digest=digest, index=len(result.jobs) + len(outcomes))
            found, runs = merge_point(point, [_part(result, jobs[part.job], part) for part in parts])
            outcomes[found.job] = runs
            rows += [found, *parts]
            points.append(found)
    return Merged(_view(result, tuple(rows), outcomes), replace(result.record, jobs=tuple(points)))


def beside_parts(result: CampaignResult) -> CampaignResult:
    """The campaign, with what the parts of its shared loads are together; unchanged where there are none."""
    found = merge(result)
    return result if found is None else found.beside_parts


def _is_part(result: MultiRunJobResult) -> bool:
    load = result.definition.get("load")
    return isinstance(load, dict) and load.get("hosts", 1) != 1 and load.get("host") is not None


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


def _part(campaign: CampaignResult, job: Job, result: MultiRunJobResult) -> Part:
    host = job.definition.load.host or 0
    runs = []
    for run in result.runs:
        content = campaign.file(result.job, run.run_id, REQUESTS) if REQUESTS in run.files else None
        requests = None if content is None else read_requests(content)
        samples = campaign.samples(result.job, run.run_id) if run.error is None else ()
        runs.append(PartRun(host, run, samples, requests))
    return Part(host, result, tuple(runs))


def _view(
    result: CampaignResult, rows: tuple[MultiRunJobResult, ...], outcomes: Mapping[str, tuple[RunOutcome, ...]]
) -> CampaignResult:
    def samples(job: str, run: int) -> tuple[SampleSet, ...]:
        if job not in outcomes:
            return result.samples(job, run)
        return next((one.samples for one in outcomes[job] if one.result.run_id == run), ())

    return replace(result, record=replace(result.record, jobs=rows), read_samples=samples)

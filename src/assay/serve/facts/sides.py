"""What a comparison is asked about, read from the store: campaigns, jobs, agents, labels.

campaign:1f3a…     the jobs of one campaign
job:1f3a…-0        one job
agent:bench-03     the newest result of each job that an agent delivered
label:branch=main  the newest campaign of each benchmark that has the label
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue
from sqlalchemy import select

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.analyse.text import count
from assay.documents import from_json
from assay.errors import UsageError
from assay.serve.facts.records import ComparedSide
from assay.serve.state import Kept
from assay.store.database import reading
from assay.store.fleet.transactions import unknown_agent
from assay.store.listing import JobFilter
from assay.store.records import JobSummary, StoredResult
from assay.store.tables import CampaignRow, JobRow

Kind = Literal["campaign", "job", "agent", "label"]

# A side of more results is too large to look at, and slow to read.
MOST_RESULTS = 200
# The newest jobs of an agent, among which of each the newest is taken.
_MOST_LOOKED_AT = 200
# Campaigns with a label of which the newest of each benchmark is taken.
_MOST_LABELLED = 100


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One result of a side."""

    summary: JobSummary
    result: MultiRunJobResult


@dataclass(frozen=True, slots=True)
class ReadSide:
    """One side with its results, of each job the newest."""

    side: ComparedSide
    results: tuple[ReadResult, ...]
    more: bool = False
    """There are results that were not read."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.summary.benchmark for one in self.results))

    def record(self, benchmark: str | None, *, of_agents: bool = False) -> CampaignRecord:
        """Its results of one benchmark, or all of them, as one campaign.

        Args:
            of_agents: machines are compared, so that which machine a job asked for does not tell jobs apart.
        """
        jobs = [one.result for one in self.results if benchmark is None or one.summary.benchmark == benchmark]
        if of_agents:
            jobs = [replace(job, point=without_needs(job.point)) for job in jobs]
        return CampaignRecord(self.side.key, benchmark or "", "", "done", tuple(jobs))


def read_sides(kept: Kept, keys: Sequence[str], benchmark: str) -> tuple[ReadSide, ...]:
    """Read every side.

    Raises:
        UsageError: if a side is badly written, named twice, or names what is not there.
    """
    if len(set(keys)) < len(keys):
        raise UsageError(
            "the same side is named twice: a result tells nothing against itself",
            code="same-result",
            try_="name another side",
        )
    return tuple(_read(kept, key, benchmark) for key in keys)


def _read(kept: Kept, key: str, benchmark: str) -> ReadSide:
    kind, colon, name = key.partition(":")
    read = _KINDS.get(kind)
    if read is None or not colon or not name:
        raise UsageError(
            f"{key!r} is no side of a comparison",
            code="side",
            try_="write campaign:ID, job:ID, agent:NAME or label:KEY=VALUE",
        )
    return read(kept, key, name, benchmark)


def _campaign(kept: Kept, key: str, name: str, benchmark: str) -> ReadSide:
    known = kept.listing.campaign(name)
    stored, more = _stored(kept, JobFilter(campaign=name))
    fitting = stored if known.benchmark == benchmark or not benchmark else []
    says = f"campaign {name} of {known.benchmark}, made {known.created_at[:16].replace('T', ' ')}"
    return _side(key, "campaign", known.benchmark, says, fitting, more=more)


def _job(kept: Kept, key: str, name: str, benchmark: str) -> ReadSide:
    detail = kept.listing.job(name)
    one = detail.summary
    fits = detail.result is not None and benchmark in ("", one.benchmark)
    found = [StoredResult(one, detail.result)] if fits and detail.result is not None else []
    label = f" {one.label}" if one.label else ""
    says = f"job {name} of {one.benchmark}{label and f':{label}'}"
    return _side(key, "job", f"{one.benchmark}{label}", says, found)


def _agent(kept: Kept, key: str, name: str, benchmark: str) -> ReadSide:
    page = kept.listing.jobs(JobFilter(agent=name), limit=_MOST_LOOKED_AT)
    if not page.items and name not in {told for one in kept.control.agents() for told in (one.id, one.name)}:
        raise unknown_agent(name)
    if benchmark and page.next is not None and all(one.benchmark != benchmark for one in page.items):
        page = kept.listing.jobs(JobFilter(agent=name, benchmark=benchmark), limit=_MOST_LOOKED_AT)  # slower
    called = next((one.agent_name for one in page.items if one.agent_name), name)
    done = (one for one in page.items if one.state == "done" and benchmark in ("", one.benchmark))
    newest = _newest(done)
    says = f"the newest result of each job that the agent {called} delivered"
    stored = _documents(kept, newest[:MOST_RESULTS])
    return _side(key, "agent", called, says, stored, more=page.next is not None or len(newest) > MOST_RESULTS)


def _label(kept: Kept, key: str, name: str, benchmark: str) -> ReadSide:
    label, equals, value = name.partition("=")
    if not label or not equals or set(label) & set('"\\'):
        raise UsageError(f"{key!r} names no label with its value", code="label", try_="write label:branch=main")
    stored: list[StoredResult] = []
    more = False
    for campaign in _labelled(kept, label, value, benchmark):
        found, rest = _stored(kept, JobFilter(campaign=campaign), MOST_RESULTS - len(stored))
        stored += found
        more = more or rest
        if len(stored) >= MOST_RESULTS:
            break
    says = f"the newest campaign of each benchmark with the label {name}"
    return _side(key, "label", name, says, stored, more=more)


_KINDS: dict[str, Callable[[Kept, str, str, str], ReadSide]] = {
    "campaign": _campaign, "job": _job, "agent": _agent, "label": _label
}  # fmt: skip


def _labelled(kept: Kept, label: str, value: str, benchmark: str) -> list[str]:
    """The newest campaign of each benchmark that has a label, the newest first."""
    query = select(CampaignRow.id, CampaignRow.benchmark).where(CampaignRow.labels[label].as_string() == value)
    if benchmark:
        query = query.where(CampaignRow.benchmark == benchmark)
    newest = query.order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc()).limit(_MOST_LABELLED)
    with reading(kept.store.engine) as session:
        rows = session.execute(newest).all()
    found: dict[str, str] = {}
    for campaign, of in rows:
        found.setdefault(of, campaign)
    if not found:
        raise UsageError(
            f"no campaign{f' of {benchmark!r}' if benchmark else ''} has the label {label}={value}",
            code="unknown-label",
            try_="give campaigns labels with `labels:` in their file",
        )
    return list(found.values())


def _stored(kept: Kept, which: JobFilter, most: int = MOST_RESULTS) -> tuple[list[StoredResult], bool]:
    page = kept.listing.results(which, limit=most)
    return list(page.items), page.next is not None


def _newest(jobs: Iterable[JobSummary]) -> list[JobSummary]:
    found: dict[tuple[str, str], JobSummary] = {}
    for one in jobs:
        found.setdefault((one.benchmark, one.label), one)
    return list(found.values())


def _documents(kept: Kept, jobs: Sequence[JobSummary]) -> list[StoredResult]:
    query = select(JobRow.id, JobRow.result).where(JobRow.id.in_([one.id for one in jobs]))
    with reading(kept.store.engine) as session:
        found = {row.id: row.result for row in session.execute(query)}
    return [StoredResult(one, found[one.id]) for one in jobs if found.get(one.id)]


def _side(
    key: str, kind: Kind, name: str, says: str, stored: Sequence[StoredResult], *, more: bool = False
) -> ReadSide:
    results = tuple(ReadResult(one.job, from_json(MultiRunJobResult, one.result, source=one.job.id)) for one in stored)
    campaigns = tuple(dict.fromkeys(one.job.campaign for one in stored))
    told = f"{says}: {count(len(results), 'result')}{', and more that were not read' if more else ''}"
    return ReadSide(ComparedSide(key, kind, name, told, len(results), campaigns), results, more)


def without_needs(point: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A point of a matrix without what it asks of the machine."""
    return {path: value for path, value in point.items() if not path.startswith("needs.")}


def point_key(result: MultiRunJobResult) -> str:
    """The point of a matrix in one spelling."""
    return json.dumps(dict(result.point), sort_keys=True, default=str)

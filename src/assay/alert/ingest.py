"""Results as they come in: each becomes points of its series, the series are checked, and alerts are raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from assay.alert.evaluate import consider, evaluate
from assay.alert.events import of_findings
from assay.alert.rules import is_for, parsed, rules_of
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, Clock
from assay.documents import from_json
from assay.errors import UsageError
from assay.plan.job import Job
from assay.series.repository import ImportCounts, KnownFinding, SeriesStore
from assay.store.alerts import AlertRules
from assay.store.listing import JobFilter, Listing
from assay.store.series_file import FilePoint
from assay.store.store import Store

_PAGE = 200


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of the results of a store."""

    results: int
    series: tuple[str, ...]
    findings: tuple[KnownFinding, ...]
    """New or changed."""


def observe(store: Store, record: CampaignRecord, clock: Clock = SYSTEM_CLOCK) -> tuple[KnownFinding, ...]:
    """Take the results of a campaign into their series, and check these.

    Args:
        record: a campaign, or some jobs of one; what was taken before, and what was not measured, is left out.

    Returns:
        The findings that are new, or changed.
    """
    series = SeriesStore(store, clock)
    document = _document(store, record.campaign)
    named = (*alerted(document or {}), *_asked(store, record.benchmark))
    touched: dict[str, str] = {}
    for result in record.jobs:
        at = moment_of(result, clock)
        touched |= dict.fromkeys(series.add(result, record.benchmark, record.labels, at, named), result.job)
    found = series.check(touched)
    for result in record.jobs:
        if result.state in ("done", "failed"):
            mine = [one for one in found if touched.get(one.series.id) == result.job]
            consider(
                store,
                result,
                benchmark=record.benchmark,
                campaign=record.campaign,
                at=moment_of(result, clock),
                clock=clock,
                document=document,
                labels=record.labels,
                findings=mine,
            )
    return found


def observe_job(
    store: Store, job: Job, result: MultiRunJobResult, clock: Clock = SYSTEM_CLOCK
) -> tuple[KnownFinding, ...]:
    """Take the result of one job into its series, and check these; as `observe` does."""
    record = CampaignRecord(job.campaign, job.benchmark, "", "running", (result,), job.labels)
    return observe(store, record, clock)


def collect(store: Store, clock: Clock = SYSTEM_CLOCK, benchmark: str = "") -> IngestSummary:
    """Take all results of a store into their series: those from before there were any, and those that were missed."""
    listing, series = Listing(store.engine), SeriesStore(store, clock)
    campaigns: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {}
    touched: dict[str, None] = {}
    results, cursor = 0, None
    while True:
        page = listing.results(JobFilter(benchmark=benchmark), cursor=cursor, limit=_PAGE)
        for one in page.items:
            campaign = one.job.campaign
            if campaign not in campaigns:
                campaigns[campaign] = (listing.campaign(campaign).labels, alerted(_document(store, campaign) or {}))
            result = from_json(MultiRunJobResult, one.result, source=one.job.id)
            labels, named = campaigns[campaign]
            taken = series.add(result, one.job.benchmark, labels, moment_of(result, clock), named)
            touched |= dict.fromkeys(taken)
            results += bool(taken)
        cursor = page.next
        if cursor is None:
            break
    return IngestSummary(results, tuple(touched), series.check(touched))


def take(
    store: Store, points: Sequence[FilePoint], clock: Clock = SYSTEM_CLOCK
) -> tuple[ImportCounts, tuple[KnownFinding, ...]]:
    """Take points of a file into the store, and check their series; return what became of them, and what is found."""
    series = SeriesStore(store, clock)
    taken = series.take(points)
    found = series.check(taken.series)
    evaluate(store, of_findings(found, clock.utc().timestamp()), None, clock)
    return taken, found


def expect(store: Store, finding: str, clock: Clock = SYSTEM_CLOCK) -> KnownFinding:
    """Take a change as meant: its series is judged from there on, and alerts about it become `expected`.

    Raises:
        UsageError: `unknown-finding` if there is none, `lifecycle` if it is gone.
    """
    series = SeriesStore(store, clock)
    found = series.expect(finding)
    # What lies behind it may look different now.
    changed = series.findings(series=found.series.id)
    evaluate(store, of_findings(changed, clock.utc().timestamp()), None, clock)
    return found


def moment_of(result: MultiRunJobResult, clock: Clock = SYSTEM_CLOCK) -> float:
    """When a result was measured, in seconds since 1970; now where it does not tell."""
    if result.completed_at:
        try:
            return datetime.fromisoformat(result.completed_at).timestamp()
        except ValueError:  # written by another version
            pass
    return clock.utc().timestamp()


def alerted(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics and statistics that the alerts of a benchmark file name."""
    told = document.get("alerts")
    rules: Iterable[Any] = told if isinstance(told, list | tuple) else ()
    return tuple(dict.fromkeys(metric for rule in rules if (metric := _metric(rule))))


def _metric(rule: object) -> str | None:
    try:
        return parsed(rule).metric
    except UsageError:  # refused when it was handed in, or written by another version
        return None


def _asked(store: Store, benchmark: str) -> tuple[str, ...]:
    """The metrics and statistics that rules given elsewhere name for a benchmark."""
    rules = rules_of(AlertRules(store.engine).list())
    return tuple(rule.alert.metric for rule in rules if rule.alert.metric and is_for(rule, benchmark))


def _document(store: Store, campaign: str) -> Mapping[str, Any] | None:
    """The benchmark file of a campaign; None for results of no campaign."""
    try:
        return Listing(store.engine).campaign_document(campaign)
    except UsageError:
        return None

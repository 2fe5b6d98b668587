"""The events that alerts are made of: results as they come in, and periodic checks for what stays away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from assay.alert.evaluate import consider, evaluate, note_file
from assay.alert.events import of_back, of_ended, of_findings, of_lost, of_noise, of_silence
from assay.alert.lifecycle import ACTIVE
from assay.alert.records import AlertRecord, Trouble, record_of
from assay.alert.rules import Rule, is_for, is_pattern, parsed, rules_of
from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import SYSTEM_CLOCK, Clock
from assay.documents import from_json
from assay.errors import UsageError
from assay.plan.job import Job
from assay.series.repository import ImportCounts, KnownFinding, SeriesStore
from assay.store.alerts import AlertRules, Alerts
from assay.store.listing import JobFilter, Listing, every
from assay.store.overview import ActivityReader, CampaignFile
from assay.store.series_file import FilePoint
from assay.store.store import Store


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What was found in the results of a store."""

    results: int
    series: tuple[str, ...]
    findings: tuple[KnownFinding, ...]
    """New or changed."""


def observe(store: Store, record: CampaignRecord, clock: Clock = SYSTEM_CLOCK) -> tuple[KnownFinding, ...]:
    """Take the results of a campaign into their series, and check these."""
    series = SeriesStore(store, clock)
    document = _document(store, record.campaign)
    named = (*alerted(document or {}), *_named_elsewhere(store, record.benchmark))
    touched: dict[str, str] = {}
    for result in record.jobs:
        at = moment_of(result, clock)
        touched |= dict.fromkeys(series.add(result, record.benchmark, record.labels, at, named), result.job)
    findings = series.check(touched)
    for result in record.jobs:
        if result.state in ("done", "failed"):
            own = [finding for finding in findings if touched.get(finding.series.id) == result.job]
            consider(
                store,
                result,
                benchmark=record.benchmark,
                campaign=record.campaign,
                at=moment_of(result, clock),
                clock=clock,
                document=document,
                labels=record.labels,
                findings=own,
            )
    return findings


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
    results, which = 0, JobFilter(benchmark=benchmark)
    for entry in every(lambda cursor, size: listing.results(which, cursor=cursor, limit=size)):
        campaign = entry.job.campaign
        if campaign not in campaigns:
            campaigns[campaign] = (listing.campaign(campaign).labels, alerted(_document(store, campaign) or {}))
        result = from_json(MultiRunJobResult, entry.result, source=entry.job.id)
        labels, named = campaigns[campaign]
        taken = series.add(result, entry.job.benchmark, labels, moment_of(result, clock), named)
        touched |= dict.fromkeys(taken)
        results += bool(taken)
    return IngestSummary(results, tuple(touched), series.check(touched))


def take(
    store: Store, points: Sequence[FilePoint], clock: Clock = SYSTEM_CLOCK
) -> tuple[ImportCounts, tuple[KnownFinding, ...]]:
    """Take points of a file into the store and check their series; return the counts and the findings."""
    series = SeriesStore(store, clock)
    taken = series.take(points)
    findings = series.check(taken.series)
    evaluate(store, of_findings(findings, clock.utc().timestamp()), None, clock)
    return taken, findings


def expect(store: Store, finding: str, clock: Clock = SYSTEM_CLOCK) -> KnownFinding:
    """Take a change as meant: its series is judged from there on, and alerts about it become `expected`."""
    series = SeriesStore(store, clock)
    expected = series.expect(finding)
    # What lies behind it may look different now.
    changed = series.findings(series=expected.series.id)
    evaluate(store, of_findings(changed, clock.utc().timestamp()), None, clock)
    return expected


def moment_of(result: MultiRunJobResult, clock: Clock = SYSTEM_CLOCK) -> float:
    """When a result was measured, in seconds since 1970; now where it does not say."""
    if result.completed_at:
        try:
            return datetime.fromisoformat(result.completed_at).timestamp()
        except ValueError:  # written by another version
            pass
    return clock.utc().timestamp()


def alerted(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics and statistics that the alerts of a benchmark file name."""
    alerts = document.get("alerts")
    rules: Iterable[Any] = alerts if isinstance(alerts, list | tuple) else ()
    return tuple(dict.fromkeys(metric for rule in rules if (metric := _metric(rule))))


def _metric(rule: object) -> str | None:
    try:
        return parsed(rule).metric
    except UsageError:  # refused when it was handed in, or written by another version
        return None


def _named_elsewhere(store: Store, benchmark: str) -> tuple[str, ...]:
    """The metrics and statistics that rules given elsewhere name for a benchmark."""
    rules = rules_of(AlertRules(store.engine).list())
    return tuple(rule.alert.metric for rule in rules if rule.alert.metric and is_for(rule, benchmark))


def _document(store: Store, campaign: str) -> Mapping[str, Any] | None:
    """The benchmark file of a campaign; None for results of no campaign."""
    try:
        return Listing(store.engine).campaign_document(campaign)
    except UsageError:
        return None


def check_silence(store: Store, rules: Sequence[Rule], clock: Clock) -> tuple[AlertRecord, ...]:
    """Open what rules say about benchmarks without results, and resolve it when results come."""
    now = clock.utc().timestamp()
    silence_rules = [rule for rule in rules if rule.alert.when == "silent"]
    standing = _standing(store, "silent")
    if not silence_rules and not standing:
        return ()
    last = ActivityReader(store.engine).last_results()
    changed: list[AlertRecord] = []
    quiet: set[str] = set()
    for rule in silence_rules:
        for benchmark in _benchmarks(rule, last):
            after_s = rule.alert.after or 0.0
            # Before the rule existed, no results were expected.
            newest = max(last.get(benchmark, 0.0), rule.created_at)
            if now - newest >= after_s:
                quiet.add(benchmark)
                changed += evaluate(store, [of_silence(benchmark, newest, after_s, now)], [rule], clock)
    back = [of_noise(benchmark, now) for benchmark in sorted(standing - quiet) if benchmark in last]
    return (*changed, *evaluate(store, back, rules, clock))


def check_agents(
    store: Store, rules: Sequence[Rule], clock: Clock, silent_after_s: float, listening_since: float = 0.0
) -> tuple[AlertRecord, ...]:
    """Open what rules say about agents that are gone, and resolve it when they are back.

    Args:
        listening_since: when the server began: time before that does not count as silence.
    """
    now = clock.utc().timestamp()
    agent_rules = [rule for rule in rules if rule.alert.when == "agent-lost"]
    standing = _standing(store, "agent-lost")
    if not agent_rules and not standing:
        return ()
    away = ActivityReader(store.engine).lost_agents(now - silent_after_s)
    changed: list[AlertRecord] = []
    by_wait: dict[float, list[Rule]] = {}
    for rule in agent_rules:
        by_wait.setdefault(max(silent_after_s, rule.alert.after or 0.0), []).append(rule)
    for after_s, of_wait in sorted(by_wait.items()):
        lost = [of_lost(agent, after_s, now) for agent in away if now - max(agent.last_seen, listening_since) > after_s]
        changed += evaluate(store, lost, of_wait, clock)
    back = [of_back(agent, now) for agent in sorted(standing - {agent.id for agent in away})]
    return (*changed, *evaluate(store, back, rules, clock))


def follow_jobs(
    store: Store, rules: Sequence[Rule] | None, clock: Clock, after: int
) -> tuple[tuple[AlertRecord, ...], int]:
    """Open and resolve what rules say about failed jobs, from the history of jobs on after a line of it.

    Jobs that no agent could take, or that were given up, have no result to open an alert.

    Returns:
        The alerts that changed, and the number of the last line that was read.
    """
    ended, last = ActivityReader(store.engine).ended_after(after)
    if not ended:
        return (), last
    all_rules = rules_of(AlertRules(store.engine).list()) if rules is None else rules
    failure_rules = [rule for rule in all_rules if rule.alert.when == "failed"]
    events = [
        of_ended(job)
        for job in ended
        if any(is_for(rule, job.benchmark) and rule.created_at <= job.at for rule in failure_rules)
    ]
    return evaluate(store, events, failure_rules, clock), last


def note_files(store: Store, clock: Clock, since: str) -> str:
    """Note the rules of the benchmark files that were handed in from a moment on; of all when it is empty.

    Returns:
        The moment of the newest one.
    """
    watched = ActivityReader(store.engine)
    files = watched.files_since(since) if since else watched.newest_files()
    newest: dict[str, CampaignFile] = {file.benchmark: file for file in files}  # in order: the last one counts
    for campaign_file in newest.values():
        note_file(store, campaign_file.benchmark, campaign_file.document, _seconds(campaign_file.created_at), clock)
    return max((file.created_at for file in files), default=since)


def _benchmarks(rule: Rule, known: dict[str, float]) -> list[str]:
    """The benchmarks that a rule waits for: all that match, and the one that it names."""
    matching = [benchmark for benchmark in sorted(known) if is_for(rule, benchmark)]
    return matching if matching or is_pattern(rule) else [rule.benchmark]


def _standing(store: Store, kind: Trouble) -> set[str]:
    alerts = map(record_of, Alerts(store.engine).in_states(sorted(ACTIVE), f'"kind":"{kind}"'))
    return {member.subject for alert in alerts if alert.kind == kind for member in alert.standing}


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()

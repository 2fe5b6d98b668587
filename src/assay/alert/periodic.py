"""Periodic checks: results that stay away, agents that are silent, jobs that ended without being observed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from assay.alert.evaluate import evaluate, note_file
from assay.alert.events import of_back, of_ended, of_lost, of_noise, of_silence
from assay.alert.lifecycle import ACTIVE
from assay.alert.records import AlertRecord, Trouble, record_of
from assay.alert.rules import Rule, is_for, is_pattern, rules_of
from assay.clock import Clock
from assay.store.alerts import AlertRules, Alerts
from assay.store.overview import ActivityReader, CampaignFile, EndedJob
from assay.store.store import Store


def check_silence(store: Store, rules: Sequence[Rule], clock: Clock) -> tuple[AlertRecord, ...]:
    """Open what rules say about benchmarks without results, and resolve it when results come."""
    now = clock.utc().timestamp()
    asked = [rule for rule in rules if rule.alert.when == "silent"]
    standing = _standing(store, "silent")
    if not asked and not standing:
        return ()
    last = ActivityReader(store.engine).last_results()
    changed: list[AlertRecord] = []
    quiet: set[str] = set()
    for rule in asked:
        for benchmark in _benchmarks(rule, last):
            after_s = rule.alert.after or 0.0
            # Before the rule was there, nobody waited for results.
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
        silent_after_s: an agent that was not heard of for so long is lost, unless a rule gives it longer.
        listening_since: when the server began: no agent is lost because nobody was there to hear it.
    """
    now = clock.utc().timestamp()
    asked = [rule for rule in rules if rule.alert.when == "agent-lost"]
    standing = _standing(store, "agent-lost")
    if not asked and not standing:
        return ()
    away = ActivityReader(store.engine).lost_agents(now - silent_after_s)
    changed: list[AlertRecord] = []
    by_wait: dict[float, list[Rule]] = {}
    for rule in asked:
        by_wait.setdefault(max(silent_after_s, rule.alert.after or 0.0), []).append(rule)
    for after_s, some in sorted(by_wait.items()):
        lost = [of_lost(agent, after_s, now) for agent in away if now - max(agent.last_seen, listening_since) > after_s]
        changed += evaluate(store, lost, some, clock)
    back = [of_back(agent, now) for agent in sorted(standing - {agent.id for agent in away})]
    return (*changed, *evaluate(store, back, rules, clock))


def follow_jobs(
    store: Store, rules: Sequence[Rule] | None, clock: Clock, after: int
) -> tuple[tuple[AlertRecord, ...], int]:
    """Open and resolve what rules say about failed jobs, from the history of jobs on after a line of it.

    Jobs that nobody could take, or that were given up, have no result that would tell.

    Returns:
        The alerts that changed, and the number of the last line that was read.
    """
    ended, last = ActivityReader(store.engine).ended_after(after)
    if not ended:
        return (), last
    known = rules_of(AlertRules(store.engine).list()) if rules is None else rules
    asked = [rule for rule in known if rule.alert.when == "failed"]
    events = [of_ended(job) for job in ended if _is_asked(job, asked)]
    return evaluate(store, events, asked, clock), last


def note_files(store: Store, clock: Clock, since: str) -> str:
    """Note the rules of the benchmark files that were handed in from a moment on; of all when it is empty.

    Returns:
        The moment of the newest one.
    """
    watched = ActivityReader(store.engine)
    found = watched.files_since(since) if since else watched.newest_files()
    newest: dict[str, CampaignFile] = {one.benchmark: one for one in found}  # in order: the last one counts
    for one in newest.values():
        note_file(store, one.benchmark, one.document, _seconds(one.created_at), clock)
    return max((one.created_at for one in found), default=since)


def _is_asked(job: EndedJob, rules: Sequence[Rule]) -> bool:
    return any(is_for(rule, job.benchmark) and rule.created_at <= job.at for rule in rules)


def _benchmarks(rule: Rule, known: dict[str, float]) -> list[str]:
    """The benchmarks that a rule waits for: all that match, and the one that it names."""
    matching = [benchmark for benchmark in sorted(known) if is_for(rule, benchmark)]
    return matching if matching or is_pattern(rule) else [rule.benchmark]


def _standing(store: Store, kind: Trouble) -> set[str]:
    found = map(record_of, Alerts(store.engine).in_states(sorted(ACTIVE), f'"kind":"{kind}"'))
    return {member.subject for alert in found if alert.kind == kind for member in alert.standing}


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()

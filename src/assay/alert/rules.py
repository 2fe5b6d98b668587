"""Which rules are about which events, and what they say: yes, no, or cannot tell and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import ValidationError

from assay.alert.records import Event, RuleNote, Trouble
from assay.analyse.headline import split_statistic
from assay.analyse.records import Interval
from assay.analyse.text import number, percent, quantity
from assay.documents import validation_words
from assay.errors import UsageError
from assay.metrics import base_name
from assay.plan.job import content_hash
from assay.spec.schedule import Alert
from assay.store.alerts import StoredRule
from assay.units import show_seconds

Answer = Literal["yes", "no", "cannot tell"]

_TROUBLE: Mapping[str, Trouble] = {"worse": "finding", "above": "threshold", "below": "threshold", "failed": "failed",
                                   "silent": "silent", "agent-lost": "agent-lost"}  # fmt: skip
_LONGEST_NAME = 200
# The metric itself and its middle are the same number.
_MIDDLE = frozenset({"", "median", "p50"})


@dataclass(frozen=True, slots=True)
class Rule:
    """When to tell people, and about which benchmarks."""

    id: str
    name: str
    benchmark: str
    """Name of a benchmark, or a pattern such as `chat-*`."""
    alert: Alert
    origin: str = "api"
    created_at: float = 0.0
    told_at: float | None = None

    @property
    def note(self) -> RuleNote:
        alert = self.alert
        return RuleNote(self.id, self.name, alert.notify, alert.quiet, alert.timezone, alert.at_most_every)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule says about an event."""

    answer: Answer
    because: str = ""
    """Why it cannot be decided."""


def rule_of(stored: StoredRule) -> Rule | None:
    """A stored rule; None when it was written by another version and can no longer be read."""
    try:
        alert = Alert.model_validate_json(json.dumps(stored.rule))
    except ValidationError:
        return None
    return Rule(stored.id, stored.name, stored.benchmark, alert, stored.origin, stored.created_at, stored.told_at)


def rules_of(kept: Iterable[StoredRule]) -> tuple[Rule, ...]:
    return tuple(rule for stored in kept if (rule := rule_of(stored)) is not None)


def parsed(document: object, *, at: str = "") -> Alert:
    try:
        return Alert.model_validate_json(json.dumps(document))
    except ValidationError as invalid:
        places = [(".".join(map(str, problem["loc"])), validation_words(problem)) for problem in invalid.errors()]
        problems = "; ".join(f"{place}: {message}" if place else message for place, message in places[:5])
        hint = 'write for example {"when": "ttft_ms.p99 > 50", "severity": "critical"}'
        raise UsageError(f"this is no alert rule: {problems}", code="value", at=at, try_=hint) from None


def given_rule(name: str, benchmark: str, alert: Alert, *, by: str, now: float) -> StoredRule:
    rule_id = content_hash(["api", name])[:16]
    return StoredRule(rule_id, name, "api", benchmark, _document(alert), now, now, by)


def file_rules(benchmark: str, document: Mapping[str, Any], at: float) -> tuple[StoredRule, ...]:
    rules: dict[str, StoredRule] = {}
    alerts = document.get("alerts")
    for entry in alerts if isinstance(alerts, list | tuple) else ():
        try:
            alert = parsed(entry)
        except UsageError:
            continue
        condition = [benchmark, alert.when, alert.metric, alert.by, alert.value, alert.after]
        rule_id = content_hash(["file", *condition])[:16]
        rules.setdefault(
            rule_id,
            StoredRule(rule_id, _file_name(benchmark, alert, rule_id), "file", benchmark, _document(alert), at, at),
        )
    return tuple(rules.values())


def in_words(alert: Alert) -> str:
    """What a rule is about, as people write it: `ttft_ms.p99 > 50`."""
    if alert.when in ("above", "below"):
        return f"{alert.metric} {'>' if alert.when == 'above' else '<'} {number(alert.value or 0.0)}"
    if alert.when == "worse":
        return f"{alert.metric or ''} worse".strip() + (f" by {percent(alert.by)}" if alert.by else "")
    if alert.when == "silent":
        return f"no data for {show_seconds(alert.after or 0.0)}"
    return {"failed": "job failed", "agent-lost": "agent lost"}[alert.when]


def matching(event: Event, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules that are about an event, whatever they say."""
    return tuple(rule for rule in rules if _is_about(rule, event))


def judge(rule: Rule, event: Event) -> Judgement:
    if event.kind == "threshold":
        return _limit(rule.alert, event)
    if event.kind == "finding":
        return _worse(rule.alert, event)
    return Judgement("no" if event.kind == "recovered" else "yes")


def is_for(rule: Rule, benchmark: str) -> bool:
    """Whether a rule is for a benchmark; that of a file is for its own alone, whatever its name looks like."""
    return rule.benchmark == benchmark or (rule.origin != "file" and fnmatchcase(benchmark, rule.benchmark))


def is_pattern(rule: Rule) -> bool:
    """Whether a rule is for whatever matches, and not for one benchmark."""
    return rule.origin != "file" and any(char in rule.benchmark for char in "*?[")


def _is_about(rule: Rule, event: Event) -> bool:
    if _TROUBLE[rule.alert.when] != event.trouble:
        return False
    # An agent belongs to no benchmark.
    if event.trouble != "agent-lost" and not is_for(rule, event.benchmark):
        return False
    if event.trouble not in ("finding", "threshold") or event.kind == "recovered":
        return True
    return _metric_matches(rule.alert.metric or "*", event.metric)


def _metric_matches(asked: str, metric: str) -> bool:
    """Whether a rule's metric is that of an event: `ttft_ms` and `ttft_ms.p50` are the same, `speed` any `speed{…}`."""
    wanted, statistic = split_statistic(asked)
    name, of = split_statistic(metric)
    same = statistic == of or {statistic, of} <= _MIDDLE
    return same and (fnmatchcase(name, wanted) or name == wanted or base_name(name) == wanted)


def _limit(alert: Alert, event: Event) -> Judgement:
    """Whether a value is beyond a limit, as far as its interval tells."""
    limit = alert.value or 0.0
    if event.value is None or event.interval is None:
        return Judgement("cannot tell", event.doubt or "how far the value may be off is not known")
    beyond = _beyond(alert, limit, event.interval)
    if beyond is None:
        ends = f"{quantity(event.interval.low, event.unit)} to {quantity(event.interval.high, event.unit)}"
        return Judgement("cannot tell", f"the interval ({ends}) reaches over the limit of {number(limit)}")
    return Judgement("yes" if beyond else "no")


def _beyond(alert: Alert, limit: float, interval: Interval) -> bool | None:
    """Whether a whole interval lies beyond a limit; None when it lies on both sides of it."""
    if alert.when == "above":
        return True if interval.low > limit else False if interval.high <= limit else None
    return True if interval.high < limit else False if interval.low >= limit else None


def _worse(alert: Alert, event: Event) -> Judgement:
    """Whether a finding is a change for the worse that is large enough."""
    finding = event.finding
    if finding is None or finding.state != "open":
        return Judgement("no")
    if finding.answer == "cannot tell":
        return Judgement("cannot tell", finding.because[0] if finding.because else "the finding itself cannot tell")
    if finding.answer == "better":
        return Judgement("no")
    if not alert.by:
        return Judgement("yes")
    if finding.change is None:
        return Judgement("cannot tell", "the level before is zero, so no relative change exists")
    return Judgement("yes" if abs(finding.change) >= alert.by else "no")


def _document(alert: Alert) -> dict[str, Any]:
    return alert.model_dump(mode="json", exclude_defaults=True) | {"when": alert.when}


def _file_name(benchmark: str, alert: Alert, name: str) -> str:
    """The name of a rule in a file: readable, and unique."""
    mark = f" [{name[:8]}]"  # two that read alike are still two
    return f"{benchmark}: {in_words(alert)}"[: _LONGEST_NAME - len(mark)] + mark

"""Many things moved by one cause are one alert: what has the same key is told together."""

from __future__ import annotations

from assay.alert.life import ACTIVE
from assay.alert.records import AlertRecord, Event, Moved
from assay.alert.rules import Rule
from assay.analyse.series.factors import cause_of
from assay.analyse.series.triage import Difference, shown
from assay.plan.digest import content_hash

_LENGTH = 40
# The same trouble so long after it was over is a new alert; sooner, the old one is opened again.
AGAIN_WITHIN_S = 7 * 86400.0
# A difference that is no single deed, such as a new driver, explains what moved within this time of each other.
_TOGETHER_WITHIN_S = 7 * 86400.0


def key_of(event: Event, rule: Rule) -> str:
    """What trouble an event belongs to: equal for all that one cause explains.

    Changes of series belong together if their triage blames the same difference, such as one commit or one driver, in
    whatever benchmark they show; or, where nothing differs, if they came with the same campaign. Limits that are
    passed and jobs that fail belong together by rule and benchmark, agents that are lost all together.
    """
    return content_hash([event.trouble, *_parts(event, rule)])[:_LENGTH]


def belongs(event: Event, alert: AlertRecord, now: float) -> bool:
    """Whether an event belongs to an alert of its key, or is so much later that it is a new one."""
    if alert.state not in ACTIVE:
        return now - alert.changed_at <= AGAIN_WITHIN_S
    if event.finding is None or event.finding.cause not in ("environment", "machine"):
        return True
    times = [one.since for one in alert.members if one.since is not None]
    return not times or min(abs(event.finding.since - at) for at in times) <= _TOGETHER_WITHIN_S


def blamed(found: Moved) -> Difference | None:
    """The difference that explains a change best; None where the triage blames none."""
    return next((one for one in found.differs if cause_of(one.name) == found.cause), None)


def cause_in_words(found: Moved) -> str:
    """What explains a change, in a few words: `code: commit 3f2a… → 91bc…`."""
    difference = blamed(found)
    if difference is None:
        return f"{found.cause}: {found.machine}" if found.cause == "machine" and found.machine else found.cause
    return f"{found.cause}: {difference.name} {shown(difference.before)} → {shown(difference.after)}"


def _parts(event: Event, rule: Rule) -> list[object]:
    if event.trouble == "agent-lost":
        return []
    if event.trouble != "finding" or event.finding is None:
        return [rule.id, event.benchmark]
    found = event.finding
    difference = blamed(found)
    if difference is not None:
        # A changed setting of one benchmark has nothing to do with the same setting of another one.
        own = [event.benchmark] if found.cause == "method" else []
        return [found.cause, difference.name, difference.after, *own]
    if found.cause == "machine" and found.machine:
        return [found.cause, found.machine]
    return ["campaign", event.campaign] if event.campaign else ["series", event.series]

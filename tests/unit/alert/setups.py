"""What the tests of alerts share: rules, events, findings of a known kind, and a store with a clock."""

from __future__ import annotations

from typing import Any

from assay.alert.records import Event, FindingSummary
from assay.alert.rules import Rule, parsed
from assay.analyse.records import Interval
from assay.analyse.series.causes import FactorDifference

T0 = 1_767_225_600.0  # the moment at which FakeClock begins
DAY = 86_400.0


def rule(when: object = "latency_ms worse", *, name: str = "r", benchmark: str = "*", **more: Any) -> Rule:
    """A rule that somebody gave by API."""
    document = {"when": when, **more} if isinstance(when, str) else when
    return Rule(f"rule-{name}", name, benchmark, parsed(document))


def interval(low: float, high: float) -> Interval:
    return Interval(low, high, 0.95, "test")


def moved(
    name: str = "f1", *, change: float = 0.1, state: str = "open", since: float = T0, **more: Any
) -> FindingSummary:
    """A change of a series whose level was 100."""
    answer = "worse" if change > 0 else "better"
    given = {
        "answer": answer,
        "before": 100.0,
        "after": 100 * (1 + change),
        "difference": 100 * change,
        "difference_interval": interval(100 * change - 2, 100 * change + 2),
        "change": change,
        "change_interval": interval(change - 0.02, change + 0.02),
        "probability": 0.99,
        **more,
    }
    return FindingSummary(id=name, state=state, since=since, **given)


def commit(after: str, before: str = "a" * 12) -> dict[str, Any]:
    """What a triage says that blames a commit."""
    return {"cause": "code", "differs": (FactorDifference("commit", before, after),)}


def finding(
    name: str = "f1",
    *,
    at: float = T0,
    series: str = "",
    benchmark: str = "chat",
    metric: str = "latency_ms",
    campaign: str = "c1",
    **more: Any,
) -> Event:
    """That a series changed."""
    change = moved(name, **more)
    over = change.state != "open"
    return Event(
        "recovered" if over else "finding",
        at,
        name,
        f"{change.state}:{name}",
        of="finding" if over else None,
        name=f"{benchmark}: {metric}",
        benchmark=benchmark,
        metric=metric,
        unit="ms",
        finding=change,
        series=series or f"series-of-{name}",
        job=f"{campaign}-job-0",
        campaign=campaign,
    )


def limit(
    value: float,
    half: float | None = 1.0,
    *,
    at: float = T0,
    point: str = "a",
    benchmark: str = "chat",
    metric: str = "latency_ms",
) -> Event:
    """What was measured of a metric that has a limit."""
    around = None if half is None else interval(value - half, value + half)
    return Event(
        "threshold",
        at,
        f"series {point}:{metric}",
        f"limit:{point}:{at}",
        name=f"{benchmark} {point}: {metric}",
        benchmark=benchmark,
        metric=metric,
        unit="ms",
        value=value,
        interval=around,
    )


def failed(point: str = "a", *, at: float = T0, benchmark: str = "chat") -> Event:
    return Event(
        "failed",
        at,
        f"point {point}",
        f"failed:{point}:{at}",
        name=f"{benchmark} {point}",
        benchmark=benchmark,
        reason="error[crashed]: the process died",
    )


def done(point: str = "a", *, at: float = T0, benchmark: str = "chat") -> Event:
    return Event(
        "recovered",
        at,
        f"point {point}",
        f"done:{point}:{at}",
        of="failed",
        name=f"{benchmark} {point}",
        benchmark=benchmark,
        reason="it was measured again",
    )

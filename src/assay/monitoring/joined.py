"""Metrics joined to results: what was scraped while a run went on, kept with it as a file and as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from assay.errors import AssayError
from assay.monitoring.discovery import Life
from assay.monitoring.prometheus import JOB
from assay.run.probes.job import FILE as TELEMETRY
from assay.run.records import RunOutcome, SingleRunResult
from assay.spec.secrets import redact
from assay.store.telemetry import FILE, Metrics, ScrapedSeries, cut, encode, read_telemetry

FACT = "monitoring"
"""The fact of a run that holds the figures."""


@dataclass(frozen=True, slots=True)
class Whose:
    """What belongs to a run."""

    job: str
    group: str = ""
    """The group of the cluster that its services were started for."""
    node: str = ""
    """The node on which it ran, where that is known; another one belongs to it by its job or group alone."""
    secrets: tuple[str, ...] = ()
    """Names of the environment variables whose values nothing that is kept may show."""

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a series belongs to the run: it is of its job, of its group, or of nobody in particular."""
        job, group = labels.get("job", JOB), labels.get("group", "")
        if job not in (JOB, self.job):
            return False
        if group:
            return not self.group or group == self.group
        return job == self.job or not self.node or labels.get("node", self.node) == self.node


def window_of(result: SingleRunResult) -> tuple[float, float]:
    """Begin and end of a run on the clock of the day."""
    begin, end = (datetime.fromisoformat(at).timestamp() for at in (result.started_at, result.completed_at))
    return begin, max(begin, end)


def phases_of(
    result: SingleRunResult, telemetry: bytes | None, offset_s: float | None = None
) -> tuple[tuple[str, float, float], ...]:
    """The phases of a run on the clock of the day, from what was seen of it from the side.

    Args:
        offset_s: the clock of the day less that clock, where both could be read together. Without it the first look
            from the side stands for the start of the run, which is true to some tenths of a second.
    """
    if telemetry is None:
        return ()
    try:
        recording = read_telemetry(telemetry)
    except AssayError:
        return ()
    if offset_s is None:
        first = min((int(one.at_ns[0]) for one in recording.tracks if one.at_ns.size), default=None)
        if first is None:
            return ()
        offset_s = window_of(result)[0] - first / 1e9
    return tuple((one.name, offset_s + one.begin_ns / 1e9, offset_s + one.end_ns / 1e9) for one in recording.phases)


def of_run(
    metrics: Metrics,
    result: SingleRunResult,
    whose: Whose,
    lives: Sequence[Life] | None = None,
    phases: tuple[tuple[str, float, float], ...] = (),
) -> Metrics:
    """The part of a campaign's metrics that belongs to one run.

    Args:
        lives: from when to when services ran; what was scraped of one outside of that is left out, since nobody was
            there to answer. None where that is not known.
    """
    part = cut(metrics, *window_of(result), lambda one: whose.has(one.labels))
    series = [_alive(_labelled(one, whose), lives) for one in part.series]
    return replace(part, series=tuple(one for one in series if one.value.size), phases=phases)


def joined(
    outcome: RunOutcome,
    metrics: Metrics,
    whose: Whose,
    folder: Path,
    *,
    lives: Sequence[Life] | None = None,
    offset_s: float | None = None,
) -> RunOutcome:
    """A run with what was scraped meanwhile: the file `metrics.parquet`, and its figures among the facts."""
    from assay.analyse.telemetry import summary  # it brings numpy, which a campaign without runs yet does not need

    telemetry = None
    with suppress(OSError):
        path = outcome.files.get(TELEMETRY)
        telemetry = path.read_bytes() if path is not None else None
    part = of_run(metrics, outcome.result, whose, lives, phases_of(outcome.result, telemetry, offset_s))
    if not part.scrapes:
        return without(outcome, "nothing was scraped while the run went on")
    path = folder / f"{outcome.result.run_id}-{FILE}"
    path.write_bytes(encode(part))
    result = replace(outcome.result, facts={**outcome.result.facts, FACT: summary(part)})
    return replace(outcome, result=result, files={**outcome.files, FILE: path})


def without(outcome: RunOutcome, why: str) -> RunOutcome:
    return replace(outcome, result=replace(outcome.result, absent={**outcome.result.absent, FILE: why}))


def _alive(one: ScrapedSeries, lives: Sequence[Life] | None) -> ScrapedSeries:
    """A series of a service without the moments at which it did not run."""
    import numpy as np

    if "service" not in one.labels or lives is None:
        return one
    inside = np.zeros(one.at_ms.size, dtype=bool)
    for life in (life for life in lives if life.belongs(one.labels)):
        end_s = np.inf if life.end_s is None else life.end_s
        inside |= (one.at_ms >= life.begin_s * 1e3) & (one.at_ms <= end_s * 1e3)
    return replace(one, at_ms=one.at_ms[inside], value=one.value[inside])


def _labelled(one: ScrapedSeries, whose: Whose) -> ScrapedSeries:
    """A series with the job it belongs to, and without secrets that a service may have said back."""
    labels = {**one.labels, "job": whose.job}
    if whose.secrets:
        labels = {name: redact(value, whose.secrets) for name, value in labels.items()}
    return replace(one, labels=labels)

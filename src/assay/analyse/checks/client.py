"""Checks of the load generator itself: was it far from its limits, and did it deliver what was asked for."""

from __future__ import annotations

import math

from assay.analyse.checks.evidence import CheckEvidence, Finding
from assay.analyse.text import count, number, percent
from assay.spec.workload import Load

# Of what this client can do on this machine. Above it, times begin to be those of the client.
_CEILING_PCT = 70.0
# Of one core: a client that never rests is late for what comes next.
_BUSY_PCT = 90.0
# Of the window: a client that is ready and gets no processor notes arrivals late, and nothing else shows it.
_WAIT_PCT = 10.0
# How long the loop may be away from the network, as a share of the shortest time that the headline is about; less
# than the floor hides in the noise of any system that is shared.
_LAG_SHARE = 0.10
_LAG_FLOOR_MS = 2.0
# How late requests may be sent beside how long they take.
_DELAY_SHARE = 0.10
_DELAY_FLOOR_MS = 5.0
_DELIVERED = 0.95
# Of the asked duration, in which all machines that were to begin at one moment must have loaded at once, and how far
# apart they may have begun. Where each began when it could, a run without half of it in common has no numbers anyway.
_TOGETHER = 0.8
_SKEW_S = 0.5
_SURE = 3.0  # standard deviations of the number of arrivals
_TIMES = ("itl_ms", "ttft_ms", "latency_ms", "e2e_ms")


def below_ceiling(evidence: CheckEvidence) -> Finding:
    """Whether the client had room to spare: of its measured ceiling, of its core, and in its loop."""
    parts = (_ceiling(evidence), _core(evidence), _starved(evidence), _lag(evidence))
    found = [part for part in parts if part is not None]
    if not found:
        return None, "what the client can do on this machine was not measured"
    failed = [sentence for passed, sentence in found if not passed]
    return not failed, "; ".join(failed or [sentence for _, sentence in found])


def _ceiling(evidence: CheckEvidence) -> tuple[bool, str] | None:
    share = evidence.worst("client_ceiling_pct")
    if share is None:
        return None
    told = f"the load took {percent(share / 100)} of what this client can do on this machine"
    if share <= _CEILING_PCT:
        return True, told
    return False, f"{told}; above {percent(_CEILING_PCT / 100)} add clients (load.clients), or lower the load"


def _core(evidence: CheckEvidence) -> tuple[bool, str] | None:
    busy = evidence.worst("client_cpu_pct")
    if busy is None:
        return None
    if busy <= _BUSY_PCT:
        return True, f"its busiest process used {percent(busy / 100)} of a core"
    return False, f"the busiest client process used {percent(busy / 100)} of its core, so it was late for what arrived"


def _starved(evidence: CheckEvidence) -> tuple[bool, str] | None:
    waited = evidence.worst("client_wait_pct")
    if waited is None:
        return None
    if waited <= _WAIT_PCT:
        return True, f"it waited for a processor {percent(waited / 100)} of the time"
    told = f"the client waited for a processor {percent(waited / 100)} of the time, so what arrived was noted late"
    return False, f"{told}; at most {percent(_WAIT_PCT / 100)} is fine"


def _lag(evidence: CheckEvidence) -> tuple[bool, str] | None:
    lag = evidence.worst("loop_lag_ms", "p99")
    beside = _shortest(evidence)
    if lag is None or beside is None:
        return None
    name, median = beside
    limit = max(_LAG_FLOOR_MS, _LAG_SHARE * median)
    if lag <= limit:
        return True, f"its loop was away from the network for at most {number(lag)} ms"
    told = f"the client's loop was away from the network for {number(lag)} ms, beside a median {name} of"
    return False, f"{told} {number(median)} ms; at most {number(limit)} ms is fine"


def _shortest(evidence: CheckEvidence) -> tuple[str, float] | None:
    """The shortest time that the headline is about, by its median."""
    medians = {name: evidence.metrics[name].median for name in _TIMES if name in evidence.metrics}
    shown = {name: value for name, value in medians.items() if name in evidence.headline} or medians
    return min(shown.items(), key=lambda item: item[1]) if shown else None


def load_delivered(evidence: CheckEvidence) -> Finding:
    """Whether the load that the file asks for is the one that the target got."""
    if not evidence.is_served:
        return None, "calls follow one another inside our process, so nothing can be left unsent"
    parts = (_stopped(evidence), _skipped(evidence), _delay(evidence), _level(evidence), _together(evidence))
    found = [part for part in parts if part is not None]
    if not found:
        return None, "how much of the load was delivered was not recorded"
    failed = [sentence for passed, sentence in found if not passed]
    return not failed, "; ".join(failed or [sentence for _, sentence in found])


def _stopped(evidence: CheckEvidence) -> tuple[bool, str] | None:
    """Whether a run was ended before its time."""
    told = evidence.facts("load")
    for run in evidence.good:
        why = run.facts.get("stopped") or told.get(run.run_id, {}).get("stopped")
        if isinstance(why, str) and why != "finished":
            return False, f"run {run.run_id} was ended early: {why}"
    return None


def _skipped(evidence: CheckEvidence) -> tuple[bool, str] | None:
    skipped = evidence.worst("skipped")
    if not skipped:
        return None
    open_ = evidence.job.definition.load.max_in_flight
    told = f"{count(round(skipped), 'request')} of a run were due and not sent, since {open_:,} were open"
    return False, f"{told} (load.max_in_flight)"


def _delay(evidence: CheckEvidence) -> tuple[bool, str] | None:
    """Whether requests left when they were due."""
    delay = evidence.worst("schedule_delay_ms", "p99")
    medians = [evidence.metrics[name].median for name in _TIMES[1:] if name in evidence.metrics]
    if delay is None or not medians:
        return None
    limit = max(_DELAY_FLOOR_MS, _DELAY_SHARE * min(medians))
    if delay <= limit:
        return True, f"requests were sent at most {number(delay)} ms after they were due (p99)"
    return False, f"requests were sent {number(delay)} ms after they were due (p99); at most {number(limit)} ms is fine"


def _level(evidence: CheckEvidence) -> tuple[bool, str] | None:
    """Whether the rate or the concurrency was the one asked for, in the run where it was least."""
    load = evidence.job.definition.load
    share = 1 / load.hosts if load.host is not None else 1.0  # of a load that several machines share
    if load.rate == "search" or load.trace is not None or load.stages:
        return None
    if isinstance(load.rate, float | int):
        return _rate(evidence, load, share * float(load.rate))
    asked = share * (load.concurrency or 1)
    stats = evidence.metrics.get("concurrency")
    if stats is None or load.think is not None:
        return None  # a user who thinks has no request in flight meanwhile
    told = f"{number(stats.min)} of {number(asked)} requests were in flight on average"
    return stats.min >= _DELIVERED * asked, told


def _together(evidence: CheckEvidence) -> tuple[bool, str] | None:
    """Whether the machines of a shared load began and loaded together, in the run where they did so least."""
    told = evidence.facts("merged")
    if not told:
        return None
    failed: list[str] = []
    skews: list[float] = []
    for run, merged in told.items():
        starts = merged.get("starts")
        if not isinstance(starts, dict) or not starts.get("met"):
            continue  # nobody asked them to begin at one moment
        length, asked = merged.get("length_s"), merged.get("asked_s")
        if isinstance(length, float | int) and isinstance(asked, float | int) and length < _TOGETHER * asked:
            failed.append(f"in run {run} all machines loaded together for {number(length)} s of {number(asked)} s")
        skew, apart = starts.get("skew_s"), starts.get("clocks_apart_s_at_least")
        skews += [float(skew)] if isinstance(skew, float | int) else []
        if skews and skews[-1] > _SKEW_S:
            failed.append(f"in run {run} the clients began {number(skews[-1])} s apart; at most {_SKEW_S:g} s is fine")
        if isinstance(apart, float | int) and apart > _SKEW_S:
            failed.append(f"the clocks of the clients' machines are at least {number(float(apart))} s apart")
    if failed:
        return False, "; ".join(failed)
    return (True, f"the clients began within {number(max(skews))} s of each other") if skews else None


def _rate(evidence: CheckEvidence, load: Load, asked: float) -> tuple[bool, str] | None:
    stats = evidence.metrics.get("offered_per_s")
    if stats is None:
        return None
    seconds = min(evidence.windows(lambda window: window.wall_s).values(), default=load.duration or 1.0)
    # Arrivals of a burstier process spread more: their variance is that of Poisson's over the shape.
    spread = _SURE * math.sqrt(asked / max(seconds, 1e-9) / (load.burstiness or 1.0))
    far = max((1 - _DELIVERED) * asked, spread if load.arrivals != "constant" else 0.0)
    value = max(stats.run_values.values(), key=lambda one: abs(one - asked), default=stats.median)
    return abs(value - asked) <= far, f"{number(value)} requests/s were due where {number(asked)} were asked for"

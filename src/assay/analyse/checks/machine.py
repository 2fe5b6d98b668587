"""Checks of the circumstances: the machine, its clocks, its devices, and our own share of the time."""

from __future__ import annotations

from urllib.parse import urlsplit

import numpy as np

from assay.analyse.checks.client import below_ceiling
from assay.analyse.checks.evidence import NOTHING_MEASURED, Evidence, Finding
from assay.analyse.words import count, listed, percent
from assay.run.records import Window
from assay.spec.target import EndpointTarget

# Shares of the machine's processor time. A desktop at rest uses one to three percent.
_OTHERS = 0.10
_STEAL = 0.02
# The kernel counts busy time in ticks of up to 10 ms; a shorter window would show a tick as a storm.
_SHORTEST_S = 0.2
# What our own loop may cost of one sample.
_HARNESS = 0.01


def machine_quiet(evidence: Evidence) -> Finding:
    """Whether other programs and the hypervisor left the machine to us."""
    if _is_here(evidence):
        return None, "the endpoint is on this machine, so its own work cannot be told from that of other programs"
    others = evidence.windows(lambda window: _share(window, window.others_cpu_s))
    steal = evidence.windows(lambda window: _share(window, window.steal_s))
    if not others and not steal:
        return None, "this machine does not tell how busy others kept it, or the runs were too short for it to tell"
    found = [
        _worst(others, _OTHERS, "other programs used", "of the machine's processor time"),
        _worst(steal, _STEAL, "the hypervisor took", "of the processor time away"),
    ]
    sentences = "; ".join(sentence for _, sentence in found if sentence)
    return all(passed for passed, _ in found), sentences


def _is_here(evidence: Evidence) -> bool:
    """Whether the target is an endpoint that somebody else started on this very machine."""
    target = evidence.job.definition.target
    host = urlsplit(target.endpoint).hostname or "" if isinstance(target, EndpointTarget) else ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _share(window: Window, seconds: float | None) -> float | None:
    capacity = window.wall_s * window.cores
    return None if seconds is None or window.wall_s < _SHORTEST_S else max(0.0, seconds / capacity)


def _worst(shares: dict[int, float], limit: float, what: str, of_what: str) -> tuple[bool, str]:
    """The run with the largest share, in words."""
    if not shares:
        return True, ""
    run = max(shares, key=lambda key: shares[key])
    if shares[run] <= limit:
        return True, f"{what} at most {percent(shares[run])} {of_what}"
    return False, f"{what} {percent(shares[run])} {of_what} in run {run}; at most {percent(limit)} is fine"


def clocks_steady(evidence: Evidence) -> Finding:
    """Whether the machine slowed itself down for heat."""
    events = evidence.windows(lambda window: window.throttle_events)
    if not events:
        return None, "this machine does not tell whether it throttled its clocks"
    hot = [str(run) for run, number in events.items() if number]
    if hot:
        total = round(sum(events.values()))
        return False, f"the kernel counted {count(total, 'thermal throttle event')}, in run {listed(hot)}"
    return True, f"no thermal throttling in {count(len(events), 'run')}"


def device_alone(evidence: Evidence) -> Finding:
    """Whether nobody else used the device."""
    if evidence.device is None:
        return None, "the target decides by itself which devices it uses"
    if evidence.device.partition(":")[0] == "cpu":
        return None, "the device is the processor itself, which the check of a quiet machine covers"
    return None, f"which other programs used {evidence.device} was not read"


def client_below_ceiling(evidence: Evidence) -> Finding:
    """Whether our own loop is small beside what it timed, and far from all that it can do."""
    if evidence.is_program:
        return None, "a program is timed once from start to end, so our own cost does not matter"
    if evidence.is_served or "client_ceiling_pct" in evidence.metrics:
        return below_ceiling(evidence)
    costs = evidence.windows(lambda window: window.harness_ns)
    medians = {run: float(np.median(values)) for (run, metric), values in _latencies(evidence).items()}
    shares = {run: costs[run] / (medians[run] * 1e6) for run in costs if medians.get(run, 0) > 0}
    if not shares:
        return None, "the cost of our own loop was not measured"
    run = max(shares, key=lambda key: shares[key])
    cost = f"our own loop costs {costs[run]:,.0f} ns a sample, {percent(shares[run])} of the median latency"
    return shares[run] <= _HARNESS, cost if shares[run] <= _HARNESS else f"{cost}; at most {percent(_HARNESS)} is fine"


def _latencies(evidence: Evidence) -> dict[tuple[int, str], np.typing.NDArray[np.float64]]:
    return {key: values for key, values in evidence.measured().items() if key[1] == "latency_ms" and values.size}


def device_used(evidence: Evidence) -> Finding:
    """Whether the device that was asked for did the work, read back from the runtime."""
    if evidence.device is None:
        return None, "no device was asked for"
    refused = [run for run in evidence.runs if run.error is not None and run.error.code == "device"]
    if refused and refused[0].error is not None:
        return False, f"{evidence.device} was asked for: {refused[0].error.message}"
    proofs = {run.run_id: run.device for run in evidence.good}
    if not proofs:
        return NOTHING_MEASURED
    for run, proof in proofs.items():
        if proof is None:
            return False, f"{evidence.device} was asked for and run {run} gave no proof of which device it used"
        if not proof.honoured:
            return False, f"{proof.requested} was asked for and run {run} used {proof.used} ({proof.evidence})"
    evidence_text = next(proof.evidence for proof in proofs.values() if proof)
    return True, f"all {count(len(proofs), 'run')} used {evidence.device} ({evidence_text})"

"""Checks of the circumstances: the machine, its clocks, its devices, and our own share of the time."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import numpy as np
from pydantic import JsonValue

from assay.analyse.checks.evidence import NOTHING_MEASURED, CheckEvidence, Finding, all_of
from assay.analyse.checks.fitness import State, figure, gpus_of, reason, states
from assay.analyse.checks.output import below_ceiling
from assay.analyse.records import section
from assay.analyse.text import count, listed, percent, run_name, run_names
from assay.run.records import Window
from assay.spec.target import EndpointTarget
from assay.units import show_bytes

# Shares of the machine's processor time. A desktop at rest uses one to three percent.
_OTHERS = 0.10
_STEAL = 0.02
# The kernel counts busy time in ticks of up to 10 ms; a shorter window would show a tick as a storm.
_SHORTEST_S = 0.2
# What our own loop may cost of one sample.
_HARNESS = 0.01
# Below this a share of processor time is none: it would be shown as 0.0 %.
_NONE = 0.0005
_PROCESSOR = "the device is the processor itself, which the check of a quiet machine covers"


def machine_quiet(evidence: CheckEvidence) -> Finding:
    """Whether other programs and the hypervisor left the machine to the measurement."""
    if _is_here(evidence):
        return None, "the endpoint is on this machine, so its own work looks like that of other programs"
    others = evidence.windows(lambda window: _share(window, window.others_cpu_s))
    steal = evidence.windows(lambda window: _share(window, window.steal_s))
    if not others and not steal:
        return (
            None,
            "this machine does not report how busy other programs kept it, or the runs were too short to see it",
        )
    findings = [
        _worst(others, _OTHERS, "other programs used", "of the machine's processor time"),
        _worst(steal, _STEAL, "the hypervisor took", "of it"),
    ]
    sentences = "; ".join(sentence for _, sentence in findings if sentence)
    return all(passed for passed, _ in findings), sentences


def _is_here(evidence: CheckEvidence) -> bool:
    """Whether the target is an endpoint on this very machine that assay did not start."""
    target = evidence.job.definition.target
    host = urlsplit(target.endpoint).hostname or "" if isinstance(target, EndpointTarget) else ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _share(window: Window, seconds: float | None) -> float | None:
    capacity = window.wall_s * window.cores
    return None if seconds is None or window.wall_s < _SHORTEST_S else max(0.0, seconds / capacity)


def _worst(shares: dict[int, float], limit: float, what: str, of_what: str) -> tuple[bool, str]:
    if not shares:
        return True, ""
    run = max(shares, key=lambda key: shares[key])
    if shares[run] < _NONE:
        return True, f"{what} none {of_what}"
    if shares[run] <= limit:
        return True, f"{what} at most {percent(shares[run])} {of_what}"
    return False, f"{what} {percent(shares[run])} {of_what} in {run_name(run)} (limit {percent(limit)})"


def quiet_now(state: State) -> Finding:
    """Whether other programs and the hypervisor leave the machine to the measurement."""
    load = section(state, "load")
    others, steal = figure(load, "others_pct"), figure(load, "steal_pct")
    if others is None:
        return None, "how busy other programs are is read while the control workload runs, and it did not run"
    findings = [
        _share_now(others / 100, _OTHERS, "other programs use", "of the machine's processor time"),
        _share_now((steal or 0.0) / 100, _STEAL, "the hypervisor takes", "of it"),
    ]
    return all(passed for passed, _ in findings), "; ".join(
        sentence for _, sentence in findings[: 1 if steal is None else 2]
    )


def _share_now(share: float, limit: float, what: str, of_what: str) -> tuple[bool, str]:
    sentence = f"{what} {percent(share) if share >= _NONE else 'none'} {of_what}"
    return share <= limit, sentence if share <= limit else f"{sentence} (limit {percent(limit)})"


def clocks_steady(evidence: CheckEvidence) -> Finding:
    """Whether neither the processor nor the device held its clock down: for heat, or for power."""
    parts = (_kernel_count(evidence), _throttled_in_telemetry(evidence), _reported_throttled(evidence))
    return all_of(parts, "this machine does not report whether it throttled its clocks")


def _kernel_count(evidence: CheckEvidence) -> Finding | None:
    """Throttle events that the kernel counted in the measured windows."""
    events = evidence.windows(lambda window: window.throttle_events)
    if not events:
        return None
    hot = [run for run, number in events.items() if number]
    if hot:
        total = round(sum(events.values()))
        return False, f"the kernel counted {count(total, 'thermal throttle event')}, in {run_names(hot)}"
    return True, f"no thermal throttling in {count(len(events), 'run')}"


def _throttled_in_telemetry(evidence: CheckEvidence) -> Finding | None:
    """The reasons that telemetry recorded while runs were measured."""
    reasons: dict[str, dict[str, None]] = {}
    runs: dict[str, list[int]] = {}
    for run in evidence.good:
        for device, reasons_of_run in (run.seen.throttled if run.seen else {}).items():
            if _concerns(evidence, device):
                reasons.setdefault(device, {}).update(dict.fromkeys(reasons_of_run))
                runs.setdefault(device, []).extend([run.run_id] if reasons_of_run else [])
    if not reasons:
        return None
    held = [
        f"{name} held its clock down ({listed(list(why))}), in {run_names(runs[name])}"
        for name, why in reasons.items()
        if why
    ]
    return (False, "; ".join(held)) if held else (True, f"{listed(list(reasons))} never held its clock down")


def _reported_throttled(evidence: CheckEvidence) -> Finding | None:
    """What devices reported just before and after; only without telemetry of the runs themselves."""
    looked = any(run.seen is not None and run.seen.throttled for run in evidence.good)
    findings = [] if looked else [(when, *clocks_now(state)) for when, state in states(evidence).items()]
    failed = [f"{when} the job {sentence}" for when, passed, sentence in findings if passed is False]
    if failed:
        return False, "; ".join(failed)
    return next(((True, sentence) for _, passed, sentence in findings if passed), None)


def clocks_now(state: State) -> Finding:
    """Whether neither the processor nor a device holds its clock down at this moment."""
    reasons: dict[str, list[str]] = {}
    for board in gpus_of(state):
        if isinstance(why := board.get("throttle"), list):
            reasons[f"GPU {board.get('index')}"] = [str(reason) for reason in why]
    if isinstance(why := section(state, "processor").get("held_down"), list):
        reasons["the processor"] = [str(reason) for reason in why]
    events = figure(section(state, "control"), "throttle_events")
    if events is not None:
        sentences = (
            [f"{count(round(events), 'thermal throttle event')} while the control workload ran"] if events else []
        )
        reasons["the processor"] = [*reasons.get("the processor", []), *sentences]
    if not reasons:
        return None, "this machine does not report whether it throttles its clocks"
    held = [f"{name} holds its clock down ({listed(why)})" for name, why in reasons.items() if why]
    return (False, "; ".join(held)) if held else (True, f"{listed(list(reasons))} is not throttled")


def _concerns(evidence: CheckEvidence, device: str) -> bool:
    """Whether something that was seen of a device (`cpu`, `gpu:0`) is about the one that the job used."""
    if evidence.device is None:
        return True  # the target decides by itself, so it may be any
    kind, _, index = evidence.device.partition(":")
    if device == "cpu" or kind == "cpu":
        return device == kind
    boards = {str(board.get("index")) for state in states(evidence).values() for board in gpus_of(state)}
    return device.partition(":")[2] in (boards or {index or "0"})


def device_alone(evidence: CheckEvidence) -> Finding:
    """Whether no other process used the device."""
    if evidence.device is None:
        return None, "the target decides by itself which devices it uses"
    if evidence.device.partition(":")[0] == "cpu":
        return None, _PROCESSOR
    looks = [
        look for run in evidence.good if run.seen for look in run.seen.foreign.items() if _concerns(evidence, look[0])
    ]
    for device, who in looks:
        if who:
            return False, f"other processes computed on {device} meanwhile: {listed(list(who))}"
    findings = {when: alone_now(state) for when, state in states(evidence).items()}
    for when, (passed, sentence) in findings.items():
        if passed is False:
            return False, f"{when} the job {sentence}"
    if looks:
        return True, f"no other process computed on {evidence.device} in {count(len(looks), 'run')}"
    if any(passed for passed, _ in findings.values()):
        return True, f"no other process was on {evidence.device} before and after"
    why = next(
        (sentence for _, sentence in findings.values()), f"which other programs used {evidence.device} was not read"
    )
    return None, why


def alone_now(state: State) -> Finding:
    """Whether no other process computes on a GPU at this moment."""
    boards = [(board, who) for board in gpus_of(state) if isinstance(who := board.get("foreign"), list)]
    for board, foreign in boards:
        if who := [_named(process) for process in foreign if isinstance(process, Mapping)]:
            return False, f"other processes compute on GPU {board.get('index')}: {listed(who)}"
    if boards:
        return True, f"no other process is on {count(len(boards), 'GPU')}"
    if state.get("device") == "cpu":
        return None, _PROCESSOR
    return None, reason(state, "gpu", "which programs use the device was not read")


def _named(process: Mapping[str, JsonValue]) -> str:
    """A process in words: `python (pid 12, alice, 3.4 GiB)`."""
    size = figure(process, "memory_bytes")
    words = [f"pid {process.get('pid')}", str(process.get("user") or ""), show_bytes(size) if size else ""]
    return f"{process.get('name') or 'a process'} ({', '.join(filter(None, words))})"


def client_below_ceiling(evidence: CheckEvidence) -> Finding:
    """Whether assay's own loop is small beside what it timed, and far from all that it can do."""
    if evidence.is_program:
        return None, "a program is timed once from start to end, so the cost of assay itself does not matter"
    if evidence.is_served or "client_ceiling_pct" in evidence.metrics:
        return below_ceiling(evidence)
    costs = evidence.windows(lambda window: window.harness_ns)
    samples = {run: values for (run, metric), values in evidence.measured().items() if metric == "latency_ms"}
    medians = {run: float(np.median(values)) for run, values in samples.items() if values.size}
    shares = {run: costs[run] / (medians[run] * 1e6) for run in costs if medians.get(run, 0) > 0}
    if not shares:
        return None, "the cost of assay's own loop was not measured"
    run = max(shares, key=lambda key: shares[key])
    cost = f"assay's own loop costs {costs[run]:,.0f} ns a sample, {percent(shares[run])} of the median latency"
    return shares[run] <= _HARNESS, cost if shares[run] <= _HARNESS else f"{cost} (limit {percent(_HARNESS)})"


def device_used(evidence: CheckEvidence) -> Finding:
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
            return False, f"{evidence.device} was asked for and {run_name(run)} gave no proof of which device it used"
        if not proof.honoured:
            return False, f"{proof.requested} was asked for and {run_name(run)} used {proof.used} ({proof.evidence})"
    evidence_text = next(proof.evidence for proof in proofs.values() if proof)
    return True, f"all {count(len(proofs), 'run')} used {evidence.device} ({evidence_text})"

"""Checks of the state of the machine before and after a job: clocks, heat, memory, time, and the control workload.

Each state is one record of `assay.hardware.fitness.session`. A question about one state is answered for the state that
`assay doctor` has just read, and for both of a job, of which the worse one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from assay.analyse.checks.evidence import CheckEvidence, Finding
from assay.analyse.records import section
from assay.analyse.text import listed, number, percent
from assay.units import show_bytes

State = Mapping[str, JsonValue]
NOT_READ: Finding = (None, "the state of the machine was not read before and after the job")

# Degrees to the temperature at which something slows down: a load of seconds warms a chip by as much.
_HEADROOM_C = 10.0
_FREE = 0.10  # of memory
_SWAP = 0.05  # in use, as a share of memory, where it is unknown whether it moves
_SWAPPED_BYTES = 16 * 2**20
_PAGE_BYTES = 4096
# Reading these takes long, or their steps are coarse; the kernel falls back to them when a better one is not steady.
_SLOW_CLOCKS = frozenset({"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"})
_STEADY_CLOCKS = frozenset(
    (
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "kvm-clock",
        "riscv_clocksource",
        "timebase",
        "tod",
        "tsc",
        "xen",
    )
)
# Governors of these drivers only lean to one side; the preference says to which.
_LEANING_DRIVERS = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
# Two timings of the control workload that are closer than this are the same to anybody.
_SAME = 0.05
# A history that spreads further says that the machine is never the same, and nothing about now.
_WIDEST = 0.25
# Where no history tells what is usual here.
_UNKNOWN = 0.10
_PARTS = ("integer", "memory")


def figure(tree: Mapping[str, JsonValue], name: str) -> float | None:
    """A number of a record; None where it is missing or none."""
    value = tree.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)


def reason(state: State, name: str, otherwise: str) -> str:
    """Why something was not read, as the record tells it."""
    why = section(state, "absent").get(name)
    return why if isinstance(why, str) else otherwise


def states(evidence: CheckEvidence) -> dict[str, State]:
    """The states before and after a job, those that were read."""
    by_moment = {when: section(section(evidence.environment, when), "fitness") for when in ("before", "after")}
    return {when: state for when, state in by_moment.items() if state}


def worst(evidence: CheckEvidence, judge: Callable[[State], Finding]) -> Finding:
    """The answer of both states: the first that failed, else the first that passed, else why it is undecided."""
    findings = {when: judge(state) for when, state in states(evidence).items()}
    for when, (passed, sentence) in findings.items():
        if passed is False:
            return False, f"{when} the job {sentence}"
    return next((finding for finding in findings.values() if finding[0]), next(iter(findings.values()), NOT_READ))


def governor(state: State) -> Finding:
    """Whether every core is governed for speed, or has a fixed clock."""
    facts = section(state, "processor")
    cores = {name: round(figure(section(facts, "governors"), name) or 0) for name in section(facts, "governors")}
    if not cores:
        return None, reason(state, "governor", "the system does not show how the clock is governed")
    fixed = figure(facts, "fixed_mhz")
    if fixed is not None:
        return True, f"the clock is fixed at {number(fixed)} MHz"
    slow = {name: many for name, many in cores.items() if name != "performance"}
    if not slow:
        return True, f"the governor is performance on all {sum(cores.values())} cores"
    leaning = tuple(section(facts, "preferences"))
    driver = str(facts.get("driver", ""))
    if leaning == ("performance",) and driver in _LEANING_DRIVERS:
        return True, f"the governor is {listed(list(cores))} of {driver}, and its preference is performance"
    name = max(slow, key=lambda mode: slow[mode])
    more = f", preference {listed(list(leaning))}" if leaning else ""
    summary = f"the governor is {name} on {slow[name]} of {sum(cores.values())} cores{more}"
    return False, f"{summary}; performance keeps the clock from falling between calls"


def turbo_steady(evidence: CheckEvidence) -> Finding:
    """Whether the clock cannot rise above its base, or was as fast after the job as before it."""
    by_moment = states(evidence)
    apart = _apart(by_moment)
    if apart and any(section(state, "processor").get("turbo") == "on" for state in by_moment.values()):
        part = max(apart, key=lambda loop: abs(apart[loop]))
        sentence = _took(apart[part], part)
        if abs(apart[part]) <= _SAME:
            return True, f"turbo is on, and held: {sentence}"
    return worst(evidence, turbo)


def turbo(state: State) -> Finding:
    """Whether the clock cannot rise above its base, or keeps to what is usual here."""
    switch = section(state, "processor").get("turbo")
    if switch == "off":
        return True, "turbo is off"
    if switch != "on":
        return None, reason(state, "turbo", "the system shows no switch for turbo")
    drifts = _drifts(state)
    if drifts and all(max(abs(drift), band) <= _SAME for drift, band, _ in drifts.values()):
        far = max(abs(drift) for drift, _, _ in drifts.values())
        return True, f"turbo is on, and steady: the control workload is within {percent(far)} of its history"
    return False, "turbo is on, so the clock moves with heat and with the number of busy cores"


def cool(state: State) -> Finding:
    """Whether every sensor is far from its limit."""
    nearest = section(section(state, "heat"), "nearest")
    rooms = {str(nearest.get("sensor")): nearest} if nearest else {}
    rooms |= {f"GPU {board.get('index')}": board for board in gpus_of(state) if figure(board, "headroom_c") is not None}
    if not rooms:
        hottest = section(section(state, "heat"), "hottest")
        if (warm := figure(hottest, "celsius")) is None:
            return None, reason(state, "temperature", "the system shows no temperature sensor")
        return (
            None,
            f"{hottest.get('sensor')} is at {number(warm)} °C, and the temperature at which it slows down is not known",
        )
    name = min(rooms, key=lambda sensor: figure(rooms[sensor], "headroom_c") or 0.0)
    room = figure(rooms[name], "headroom_c") or 0.0
    warm = figure(rooms[name], "celsius") if "celsius" in rooms[name] else figure(rooms[name], "temperature_c")
    at = f" at {number(warm)} °C" if warm is not None else ""
    if room >= _HEADROOM_C:
        return True, f"{name} is{at}, {number(room)} °C below its limit"
    return False, f"{name} is{at}, only {number(room)} °C below its limit (at least {number(_HEADROOM_C)} °C)"


def gpus_of(state: State) -> list[Mapping[str, JsonValue]]:
    """The boards whose state was read."""
    boards = state.get("gpus")
    return [board for board in boards if isinstance(board, Mapping)] if isinstance(boards, list) else []


def memory_free(evidence: CheckEvidence) -> Finding:
    """Whether there was memory to spare, and nothing was swapped while the job ran."""
    by_moment = states(evidence)
    low = worst(evidence, _free)
    if low[0] is not True:
        return low
    pages = [figure(section(state, "memory"), "swapped_pages") for state in by_moment.values()]
    if len(pages) < 2 or pages[0] is None or pages[1] is None:
        return worst(evidence, memory)
    moved = max(0.0, pages[1] - pages[0]) * _PAGE_BYTES
    if moved > _SWAPPED_BYTES:
        return False, f"{show_bytes(moved)} were swapped in and out between the start and the end of the job"
    return low


def memory(state: State) -> Finding:
    """Whether memory is free, and swap is not in use."""
    passed, sentence = _free(state)
    facts = section(state, "memory")
    used, total = figure(facts, "swap_used_bytes"), figure(facts, "total_bytes")
    if passed is not True or not used or not total or used < _SWAP * total:
        return passed, sentence
    return False, f"{show_bytes(used)} are in swap, and reading them back disturbs a run; {sentence}"


def _free(state: State) -> Finding:
    facts = section(state, "memory")
    available, total = figure(facts, "available_bytes"), figure(facts, "total_bytes")
    limit = figure(facts, "limit_bytes")
    if available is None or not total:
        return None, reason(state, "memory", "the system does not report how much memory is free")
    whole = limit or total
    summary = (
        f"{show_bytes(available)} of {show_bytes(whole)} {'that this container may use ' if limit else ''}are free"
    )
    enough = available >= _FREE * whole
    return enough, summary if enough else f"{summary} (at least {percent(_FREE)} is needed)"


def clock_steady(evidence: CheckEvidence) -> Finding:
    """Whether the time was read from a fast and steady source, the same before and after."""
    sources = [source for state in states(evidence).values() if (source := section(state, "clock").get("source"))]
    if len(set(map(str, sources))) > 1:
        changed = f"from {sources[0]} to {sources[1]}"
        return False, f"the kernel changed its clock source {changed} while the job ran, so times do not agree"
    return worst(evidence, clock)


def clock(state: State) -> Finding:
    """Whether the time is read from a fast and steady source."""
    source = section(state, "clock").get("source")
    if not isinstance(source, str):
        return None, reason(state, "clock source", "the system does not show what it reads the time from")
    if source in _SLOW_CLOCKS:
        return False, f"the kernel reads the time from {source}, which is slow or coarse"
    if source in _STEADY_CLOCKS:
        return True, f"the kernel reads the time from {source}"
    return None, f"the kernel reads the time from {source}, a source that assay does not know"


def control_steady(evidence: CheckEvidence) -> Finding:
    """Whether a fixed amount of work took as long after the job as before it, and as long as it usually does here."""
    by_moment = states(evidence)
    if not any(section(state, "control") for state in by_moment.values()):
        return next(
            ((None, reason(reading, "control", "no control workload was timed")) for reading in by_moment.values()),
            NOT_READ,
        )
    apart = _apart(by_moment)
    far = worst(evidence, control)
    for part, share in apart.items():
        limit = _limit_between(by_moment, part)
        if abs(share) > limit:
            return False, f"{_took(share, f'{part} loop')} (limit ±{percent(limit)})"
    if far[0] is False or not apart:
        return far
    part = max(apart, key=lambda loop: abs(apart[loop]))
    # Where the history is too wild to tell, that two timings agree is luck.
    wild = any(band > _WIDEST for state in by_moment.values() for _, band, _ in _drifts(state).values())
    return None if wild else True, f"{_took(apart[part], f'{part} loop')}; {far[1]}"


def _took(share: float, part: str) -> str:
    changed = percent(share, signed=True)
    return f"the time of the control workload changed by {changed} from before to after the job ({part})"


def control(state: State) -> Finding:
    """Whether a fixed amount of work takes as long as it usually does here."""
    timed = section(state, "control")
    took = [f"{number(value)} ms ({part})" for part in _PARTS if (value := figure(timed, f"{part}_ms")) is not None]
    if not took:
        return None, reason(state, "control", "no control workload was timed")
    drifts = _drifts(state)
    if not drifts:
        why = reason(state, "control history", "no history yet")
        return None, f"a round of the control workload takes {listed(took)}; {why}"
    part = max(drifts, key=lambda loop: abs(drifts[loop][0]) / max(_SAME, drifts[loop][1]))
    drift, band, entries = drifts[part]
    usual = f"than usual here ({part} loop, {entries} entries)"
    summary = f"the control workload takes {percent(abs(drift))} {'longer' if drift > 0 else 'less'} {usual}"
    if abs(drift) > max(_SAME, band):
        return False, f"{summary} (limit ±{percent(max(_SAME, band))})"
    if band > _WIDEST:
        return None, f"{summary}, but its history spreads by ±{percent(band)}, too much to judge"
    return True, f"{summary}; within ±{percent(max(_SAME, band))} is normal"


def _drifts(state: State) -> dict[str, tuple[float, float, int]]:
    """Part of the control workload → drift from its history, the band that is usual, and how many entries say so."""
    history = section(section(state, "control"), "history")
    drifts = {}
    for part in _PARTS:
        drift, band = (figure(section(history, part), name) for name in ("drift_pct", "band_pct"))
        if drift is not None and band is not None:
            drifts[part] = (drift / 100, band / 100, round(figure(history, "entries") or 0))
    return drifts


def _apart(by_state: Mapping[str, State]) -> dict[str, float]:
    """Part of the control workload → how much longer it took after the job than before it, as a share."""
    before, after = (section(by_state.get(when, {}), "control") for when in ("before", "after"))
    pairs = {part: (figure(before, f"{part}_ms"), figure(after, f"{part}_ms")) for part in _PARTS}
    return {part: b / a - 1 for part, (a, b) in pairs.items() if a and b}


def _limit_between(by_state: Mapping[str, State], part: str) -> float:
    """How far two timings may be apart: the band of one, widened for two, or what counts as the same."""
    bands = [drifts[part][1] for state in by_state.values() if part in (drifts := _drifts(state))]
    return max(_SAME, math.sqrt(2) * min(_WIDEST, max(bands))) if bands else _UNKNOWN


def held(state: State) -> Finding:
    """Whether no other process can measure on the same device, by the record of its lock."""
    lock = section(state, "lock")
    if lock.get("mode") not in ("wait", "try"):
        return None, "the device was not locked, so another measurement may share it"
    names = lock.get("devices")
    devices = listed([str(device) for device in names]) if isinstance(names, list) and names else "the device"
    others = lock.get("others")
    who = [_other(other) for other in others if isinstance(other, Mapping)] if isinstance(others, list) else []
    if who:
        return False, f"{devices} was not locked: {listed(who)} measures on the same machine"
    if lock.get("held") is True:
        waited = figure(lock, "waited_s") or 0.0
        after = f"; it was free after {number(waited)} s" if waited >= 1 else ""
        return True, f"{devices} was locked, so no other process measured on it{after}"
    why = [f"{name}: {cause}" for name, cause in section(lock, "absent").items()]
    return None, f"{devices} could not be locked" + (f" ({listed(why)})" if why else "")


def _other(process: Mapping[str, JsonValue]) -> str:
    """Who else measures, in words: `alice for squeezenet (pid 12)`."""
    purpose = f" for {process['purpose']}" if process.get("purpose") else ""
    pid = f" (pid {process['pid']})" if process.get("pid") else ""
    return f"{process.get('user') or 'another process'}{purpose}{pid}"

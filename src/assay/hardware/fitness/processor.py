"""How the processor's clock is set: governor, turbo, and what was counted or told of throttling."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pydantic import JsonValue

from assay.hardware.fitness.sysfs import number_of, text_of

_CPU = "sys/devices/system/cpu"
# Switches of turbo: the file, and what it holds when turbo is on.
_SWITCHES = ((f"{_CPU}/intel_pstate/no_turbo", "0"), (f"{_CPU}/cpufreq/boost", "1"))
# The firmware of a Raspberry Pi holds its clock down for these reasons; higher bits tell of the time since its start.
_FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
_FIRMWARE_BITS = ("the supply voltage is low", "the frequency is capped", "the clock is throttled", "it is warm")


def processor(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Read how the clock is set.

    Returns:
        What was read, and for what was not, the reason.
    """
    facts, absent = _governors(root)
    turbo = _turbo(root)
    if turbo:
        facts |= turbo
    else:
        absent["turbo"] = "the system shows no switch for turbo"
    if (events := throttle_events(root)) is not None:
        facts["throttle_events"] = events
    else:
        absent["throttle events"] = "the kernel counts no thermal throttling here"
    reasons = _held_down(root)
    return (facts if reasons is None else {**facts, "held_down": list(reasons)}), absent


def _governors(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    policies = sorted((root / _CPU).glob("cpufreq/policy[0-9]*")) or sorted((root / _CPU).glob("cpu[0-9]*/cpufreq"))
    if not policies:
        return {}, {"governor": "the system does not show how the clock is governed (no cpufreq)"}
    governors, preferences = Counter[str](), Counter[str]()
    fixed: set[int | None] = set()
    for policy in policies:
        cores = len(text_of(policy / "affected_cpus").split()) or 1
        if name := text_of(policy / "scaling_governor"):
            governors[name] += cores
        if preference := text_of(policy / "energy_performance_preference"):
            preferences[preference] += cores
        lowest, highest = number_of(policy / "scaling_min_freq"), number_of(policy / "scaling_max_freq")
        fixed.add(highest if lowest is not None and lowest == highest else None)
    facts: dict[str, JsonValue] = {"governors": dict(governors)} if governors else {}
    if preferences:
        facts["preferences"] = dict(preferences)
    if driver := text_of(policies[0] / "scaling_driver"):
        facts["driver"] = driver
    if len(fixed) == 1 and (only := fixed.pop()) is not None:
        facts["fixed_mhz"] = only / 1e3
    return facts, {} if governors else {"governor": "the governors of the clock cannot be read"}


def _turbo(root: Path) -> dict[str, JsonValue]:
    """Whether the clock may rise above its base, and the file that says so."""
    for name, on in _SWITCHES:
        if (value := text_of(root / name)) in ("0", "1"):
            return {"turbo": "on" if value == on else "off", "turbo_switch": f"/{name}"}
    own = [value for path in (root / _CPU).glob("cpufreq/policy[0-9]*/boost") if (value := text_of(path)) in ("0", "1")]
    if not own:
        return {}
    return {"turbo": "on" if "1" in own else "off", "turbo_switch": f"/{_CPU}/cpufreq/policy*/boost"}


def throttle_events(root: Path) -> int | None:
    """How often the kernel saw a core throttle for heat since it started; None where it does not count."""
    counts = [number_of(path) for path in (root / _CPU).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")]
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def _held_down(root: Path) -> tuple[str, ...] | None:
    """Why the firmware of the board holds the clock down now; None where there is none that tells."""
    try:
        bits = int(text_of(root / _FIRMWARE), 16)
    except ValueError:
        return None
    return tuple(reason for place, reason in enumerate(_FIRMWARE_BITS) if bits >> place & 1)

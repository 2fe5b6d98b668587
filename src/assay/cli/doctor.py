"""`assay doctor`: is this machine fit to be measured on, and what would make it so."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.output import say, use_colour

if TYPE_CHECKING:
    from pydantic import JsonValue

    from assay.analyse.records import Check
    from assay.hardware.probes import ProbeSupport

_MARKS = {True: "✓", False: "✕", None: "–"}
_COLOURS = {True: "green", False: "red", None: "yellow"}
_NOT_FIT = 1


@dataclass(frozen=True, slots=True)
class _Diagnosis:
    """What was found, and what would help."""

    fit: str
    checks: tuple[Check, ...]
    fixes: dict[str, tuple[str, ...]]
    """Check that failed → commands and sentences."""
    busy: tuple[str, ...]
    """Who else is busy."""
    probes: tuple[ProbeSupport, ...]
    state: dict[str, JsonValue]


def doctor(
    device: Annotated[
        str | None,
        typer.Option("--device", help="Look at one device, such as cpu or cuda:0; all of them by default."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings and every reading as JSON.")] = False,
    control: Annotated[
        bool, typer.Option("--control/--no-control", help="Time the control workload, about a second.")
    ] = True,
) -> None:
    """Say whether this machine is fit to be measured on, and how to make it so; nothing is changed."""
    found = _diagnose(_canonical(device), control)
    say(json.dumps(_document(found), indent=2, ensure_ascii=False) if as_json else _text(found))
    raise typer.Exit(_NOT_FIT if found.fit == "not fit" else 0)


def _canonical(device: str | None) -> str | None:
    """The one name of a device."""
    from assay.errors import UsageError
    from assay.spec.devices import canonical

    try:
        return None if device is None else canonical(device)
    except ValueError as wrong:
        raise UsageError(str(wrong), code="device", at="--device", try_="write cpu or cuda:0") from None


def _diagnose(device: str | None, control: bool) -> _Diagnosis:
    from assay.analyse.checks.table import conditions_of, fit_of
    from assay.hardware.fitness.remedies import remedies
    from assay.hardware.fitness.session import nvml
    from assay.hardware.gpu.detect import local_gpus
    from assay.hardware.probes import probes

    state, busy = _look(device, control)
    checks = conditions_of(state)
    fixes = {one.name: remedies(one.name, state, busy) for one in checks if one.passed is False}
    return _Diagnosis(fit_of(checks), checks, fixes, busy, probes(nvml(), local_gpus()), state)


def _look(device: str | None, control: bool) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """The state of the machine, and who else is busy; the control workload never disturbs who measures already."""
    import os

    from assay.hardware.environment import UsageSample
    from assay.hardware.fitness.lock import device_lock, holders, mode_from
    from assay.hardware.fitness.session import fitness
    from assay.report.wording import one_line
    from assay.store.location import cache_folder

    mode = mode_from(None)
    look = UsageSample()
    with device_lock(("cpu",), "assay doctor", "try" if mode == "wait" else mode, lambda _: None) as held:
        lock = held.record()
        others = [one.record() for one in holders() if one.pid != os.getpid()] if mode != "off" else []
        state = fitness(device, control and not others, cache_folder())
    state["lock"] = {**lock, "held": False, "others": [*others]} if others else lock
    if control and others:
        missing = state.get("absent")
        why = "another measurement is under way, which it would disturb"
        state["absent"] = {**(missing if isinstance(missing, dict) else {}), "control": why}
    busy = [one for one in look.busy() if isinstance(one, dict)]
    return state, tuple(one_line(f"{one['name']} (pid {one['pid']}, {one['cpu_pct']} % of a core)") for one in busy)


def _document(found: _Diagnosis) -> dict[str, Any]:
    from assay.hardware.fitness.remedies import WHY

    checks = [{**asdict(one), "why": WHY[one.name], "fix": found.fixes.get(one.name, ())} for one in found.checks]
    return {name: value for name, value in asdict(found).items() if name != "fixes"} | {"checks": checks}


def _text(found: _Diagnosis) -> str:
    from assay.hardware.fitness.remedies import WHY
    from assay.report.wording import one_line

    width = max(map(len, [*(one.name for one in found.checks), *(one.name for one in found.probes)]))
    lines = [_where(found.state), ""]
    for one in found.checks:
        lines.append(_row(one.passed, one.name, one_line(one.detail), width))
        lines += [f"    why  {WHY[one.name]}", *(f"    fix  {fix}" for fix in found.fixes.get(one.name, ()))]
    lines += ["", "what can be watched while a job runs"]
    for probe in found.probes:
        # What a machine does not have is no fault of it; what a command would bring is.
        lines.append(_row(probe.works or (False if probe.fix else None), probe.name, one_line(probe.detail), width))
        lines += [f"    fix  {fix}" for fix in probe.fix]
    return "\n".join([*lines, "", _sentence(found)])


def _where(state: dict[str, JsonValue]) -> str:
    from assay.hardware.machine import machine

    facts = machine()
    name, cpu = facts.get("name", "this machine"), facts.get("cpu", "unknown processor")
    return f"{name} · {cpu} · {state.get('device') or 'all devices'}"


def _row(passed: bool | None, name: str, detail: str, width: int) -> str:
    return f"{_painted(_MARKS[passed], _COLOURS[passed])} {name:<{width}}  {detail}"


def _sentence(found: _Diagnosis) -> str:
    """The last line: whether the machine is fit, and which conditions are not met."""
    told = sum(one.passed is not None for one in found.checks)
    colour = {"fit": "green", "fit with doubts": "yellow"}.get(found.fit, "red")
    met = f"{told} of {len(found.checks)} conditions could be told, and all of them are met"
    return f"{_painted(found.fit, colour)}: {', '.join(found.fixes) or met}"


def _painted(text: str, colour: str) -> str:
    if not use_colour():
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(colour).render(text, color_system=ColorSystem.STANDARD)

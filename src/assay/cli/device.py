"""`assay device` and `assay doctor`: measure the hardware itself, and say whether it is fit to be measured on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import (
    FailOn,
    Format,
    FormatOption,
    QuietOption,
    StoreOption,
    TextFormat,
    TextFormatOption,
    Verbs,
)
from assay.cli.output import say, say_json, say_table, use_colour
from assay.cli.run import end
from assay.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from assay.analyse.records import Check
    from assay.hardware.probes import ProbeSupport

app = Verbs(help="Measure the hardware itself: memory bandwidth, arithmetic by precision, storage.")


@app.command("bench")
def bench(
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")] = "cpu",
    tests: Annotated[
        list[str] | None, typer.Option("--tests", metavar="TEST,TEST…", help="Which tests; all by default.")
    ] = None,
    each: Annotated[str, typer.Option("--each", help="Time for each size of each test.")] = "0.5s",
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="Fresh processes.")] = 3,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", metavar="SIZE,SIZE…", help="Of memory tests, such as 256MiB.")
    ] = None,
    shapes: Annotated[
        list[str] | None, typer.Option("--shapes", metavar="N,N…", help="Sides of the matrices, such as 4096.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Most cores, for cpu.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where the storage test makes its file, for cpu.")
    ] = None,
    bare: Annotated[bool, typer.Option("--bare", help="Also time a bare loop of the library, in turn.")] = False,
    form: FormatOption = Format.text,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")] = FailOn.invalid,
    store: StoreOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure a device and print one line per test; the result is kept like that of any benchmark."""
    from assay.api.run import run as run_benchmark
    from assay.report.live import view_for
    from assay.spec.load import load

    target: dict[str, Any] = {"device": device, "tests": _words(tests), "each": each, "compare": bare}
    target |= {"sizes": _words(sizes), "shapes": _numbers(shapes)}
    target |= {"threads": threads} if threads is not None else {}
    target |= {"folder": str(folder.absolute())} if folder is not None else {}
    document = {"benchmark": f"device {device}", "target": target, "measure": {"runs": runs}}
    view = view_for(text=form is Format.text, quiet=quiet)
    # Who asks for a measurement wants a new one, not the rest of an interrupted one.
    end(run_benchmark(load(document), store=store, fresh=True, view=view), form, fail_on)


@app.command("list")
def list_(form: TextFormatOption = TextFormat.text) -> None:
    """List the devices of this machine, and what they can be measured with."""
    rows = [{"device": name, "name": what, "by": by} for name, what, by in _devices()]
    if form is TextFormat.json:
        say_json(rows)
        return
    table = [(row["device"], row["name"], row["by"]) for row in rows]
    say_table(("device", "name", "measured by"), table, "", flexible="measured by")


@app.command("locks")
def locks(form: TextFormatOption = TextFormat.text) -> None:
    """Show who measures on which device now."""
    from assay.hardware.fitness.lock import holders

    holds = holders()
    if form is TextFormat.json:
        say_json([holder.record() for holder in holds])
        return
    say("\n".join(f"{holder.device}: {holder.sentence()}" for holder in holds) or "no device is held")


def _devices() -> list[tuple[str, str, str]]:
    """Device, what it is, and what measures it, or why nothing does."""
    import numpy as np

    from assay.hardware.bench.outcome import usable_cpus
    from assay.hardware.gpu.detect import local_gpus
    from assay.hardware.machine import cpu_model
    from assay.run.torch_devices import available_devices

    cores = len(usable_cpus())
    devices = [("cpu", f"{cpu_model()}, {cores} core{'' if cores == 1 else 's'}", f"numpy {np.__version__}")]
    by_torch = available_devices()
    number = 0
    for gpu in local_gpus().gpus:
        kind = {"nvidia": "cuda", "amd": "cuda", "apple": "mps"}.get(gpu.vendor)
        name = "-" if kind is None else kind if kind == "mps" else f"{kind}:{number}"
        number += kind == "cuda"
        by = by_torch.get(kind or "")
        why = "nothing: PyTorch is not installed" if not by_torch else "nothing: PyTorch does not reach it"
        devices.append((name, gpu.name, by or why))
    return devices


def _words(given: list[str] | None) -> list[str]:
    return [word.strip() for text in given or () for word in text.split(",") if word.strip()]


def _numbers(given: list[str] | None) -> list[int]:

    try:
        return [int(word) for word in _words(given)]
    except ValueError as problem:
        raise UsageError(f"--shapes: {problem}", code="shapes", try_="write --shapes 1024,4096") from None


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
    form: TextFormatOption = TextFormat.text,
    control: Annotated[
        bool, typer.Option("--control/--no-control", help="Time the control workload, about a second.")
    ] = True,
) -> None:
    """Say whether this machine is fit to be measured on, and how to make it so; nothing is changed."""
    diagnosis = _diagnose(_canonical(device), control)
    say(json.dumps(_document(diagnosis), indent=2, ensure_ascii=False) if form is TextFormat.json else _text(diagnosis))
    raise typer.Exit(_NOT_FIT if diagnosis.fit == "not fit" else 0)


def _canonical(device: str | None) -> str | None:
    from assay.spec.section import canonical

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

    state, busy = _state_of(device, control)
    checks = conditions_of(state)
    fixes = {check.name: remedies(check.name, state, busy) for check in checks if check.passed is False}
    return _Diagnosis(fit_of(checks), checks, fixes, busy, probes(nvml(), local_gpus()), state)


def _state_of(device: str | None, control: bool) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """The state of the machine, and who else is busy; the control workload never disturbs who measures already."""
    import os

    from assay.hardware.environment import UsageSample
    from assay.hardware.fitness.lock import device_lock, holders, mode_from
    from assay.hardware.fitness.session import fitness
    from assay.report.wording import one_line
    from assay.store.location import cache_folder

    mode = mode_from(None)
    usage = UsageSample()
    with device_lock(("cpu",), "assay doctor", "try" if mode == "wait" else mode, lambda _: None) as held:
        lock = held.record()
        others = [holder.record() for holder in holders() if holder.pid != os.getpid()] if mode != "off" else []
        state = fitness(device, control and not others, cache_folder())
    state["lock"] = {**lock, "held": False, "others": [*others]} if others else lock
    if control and others:
        missing = state.get("absent")
        why = "another measurement is under way, which it would disturb"
        state["absent"] = {**(missing if isinstance(missing, dict) else {}), "control": why}
    busy = [process for process in usage.busy() if isinstance(process, dict)]
    return state, tuple(
        one_line(f"{process['name']} (pid {process['pid']}, {process['cpu_pct']} % of a core)") for process in busy
    )


def _document(diagnosis: _Diagnosis) -> dict[str, Any]:
    from assay.hardware.fitness.remedies import WHY

    checks = [
        {**asdict(check), "why": WHY[check.name], "fix": diagnosis.fixes.get(check.name, ())}
        for check in diagnosis.checks
    ]
    return {name: value for name, value in asdict(diagnosis).items() if name != "fixes"} | {"checks": checks}


def _text(diagnosis: _Diagnosis) -> str:
    from assay.hardware.fitness.remedies import WHY
    from assay.report.wording import one_line

    width = max(map(len, [*(check.name for check in diagnosis.checks), *(probe.name for probe in diagnosis.probes)]))
    lines = [_where(diagnosis.state), ""]
    for condition in diagnosis.checks:
        lines.append(_row(condition.passed, condition.name, one_line(condition.detail), width))
        lines += [
            f"    why  {WHY[condition.name]}",
            *(f"    fix  {fix}" for fix in diagnosis.fixes.get(condition.name, ())),
        ]
    lines += ["", "what can be watched while a job runs"]
    for probe in diagnosis.probes:
        # What a machine does not have is no fault of it; what a command would bring is.
        lines.append(_row(probe.works or (False if probe.fix else None), probe.name, one_line(probe.detail), width))
        lines += [f"    fix  {fix}" for fix in probe.fix]
    return "\n".join([*lines, "", _sentence(diagnosis)])


def _where(state: dict[str, JsonValue]) -> str:
    from assay.hardware.machine import machine

    facts = machine()
    name, cpu = facts.get("name", "this machine"), facts.get("cpu", "unknown processor")
    return f"{name} · {cpu} · {state.get('device') or 'all devices'}"


def _row(passed: bool | None, name: str, detail: str, width: int) -> str:
    return f"{_painted(_MARKS[passed], _COLOURS[passed])} {name:<{width}}  {detail}"


def _sentence(diagnosis: _Diagnosis) -> str:
    """The last line: whether the machine is fit, and which conditions are not met."""
    answered = sum(check.passed is not None for check in diagnosis.checks)
    colour = {"fit": "green", "fit with doubts": "yellow"}.get(diagnosis.fit, "red")
    met = f"{answered} of {len(diagnosis.checks)} conditions are known, and all of them are met"
    return f"{_painted(diagnosis.fit, colour)}: {', '.join(diagnosis.fixes) or met}"


def _painted(text: str, colour: str) -> str:
    if not use_colour():
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(colour).render(text, color_system=ColorSystem.STANDARD)

"""The state of a job's machine before and after it, side by side in one small table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.report.headline import section
from assay.report.numbers import NOTHING, show
from assay.report.sheet import Sheet
from assay.report.telemetry import show_value
from assay.report.wording import one_line
from assay.units import show_bytes

State = Mapping[str, JsonValue]
Cell = Callable[[State], str]


def fitness_sheet(job: MultiRunJobResult) -> Sheet | None:
    """What was read of the machine before and after a job; None where nobody read it."""
    before, after = (section(section(job.environment, when), "fitness") for when in ("before", "after"))
    if not before and not after:
        return None
    cells = {**_CELLS, **_of_gpus(before, after)}
    rows = [(name, cell(before), cell(after)) for name, cell in cells.items()]
    told = tuple((name, first or NOTHING, last or NOTHING) for name, first, last in rows if first or last)
    absent = {
        one_line(f"not read: {what}: {why}"): None
        for state in (before, after)
        for what, why in section(state, "absent").items()
    }
    head = ("the machine", "before", "after")
    return Sheet("the machine before and after", head, told, tuple(absent), frozenset({0, 1, 2}), (0, 1, 2))


def _governor(state: State) -> str:
    found = section(section(state, "processor"), "governors")
    return one_line(", ".join(name if len(found) == 1 else f"{name} ({cores} cores)" for name, cores in found.items()))


def _turbo(state: State) -> str:
    return _text(section(state, "processor").get("turbo"))


def _held_down(state: State) -> str:
    return _listed(section(state, "processor").get("held_down"))


def _hottest(state: State) -> str:
    return _sensor(section(section(state, "heat"), "hottest"))


def _nearest(state: State) -> str:
    """The sensor with the least room below the temperature at which the machine slows down."""
    nearest = section(section(state, "heat"), "nearest")
    room = _number(nearest.get("headroom_c"))
    return "" if room is None else one_line(f"{show_value(room, '°C')} ({nearest.get('sensor', '')})")


def _sensor(sensor: State) -> str:
    celsius = _number(sensor.get("celsius"))
    return "" if celsius is None else one_line(f"{show_value(celsius, '°C')} ({sensor.get('sensor', '')})")


def _free(state: State) -> str:
    size = _number(section(state, "memory").get("available_bytes"))
    return "" if size is None else show_bytes(size)


def _swap(state: State) -> str:
    size = _number(section(state, "memory").get("swap_used_bytes"))
    return "" if size is None else show_bytes(size)


def _others(state: State) -> str:
    share = _number(section(state, "load").get("others_pct"))
    return "" if share is None else f"{show(share, 1)} % of all cores"


def _stolen(state: State) -> str:
    share = _number(section(state, "load").get("steal_pct"))
    return "" if share is None else f"{show(share, 1)} % of all cores"


def _load_average(state: State) -> str:
    value = _number(section(state, "load").get("average_1m"))
    return "" if value is None else f"{value:g}"


def _clock(state: State) -> str:
    return _text(section(state, "clock").get("source"))


def _control(part: str) -> Cell:
    """How long a part of the control workload took, and how far that is from this machine's own history."""

    def cell(state: State) -> str:
        control = section(state, "control")
        took = _number(control.get(f"{part}_ms"))
        if took is None:
            return ""
        usual = section(section(control, "history"), part)
        drift, band = _number(usual.get("drift_pct")), _number(usual.get("band_pct"))
        beside = (
            "" if drift is None else f" ({drift:+.1f} %" + (f"; ±{band:.1f} % is usual)" if band is not None else ")")
        )
        return f"{show(took)} ms{beside}"

    return cell


# In the order in which a reader asks: how it is set, how warm it is, who else was there, how fast it is.
_CELLS: Mapping[str, Cell] = {
    "governor": _governor,
    "turbo": _turbo,
    "clock held down": _held_down,
    "hottest sensor": _hottest,
    "room until it slows down": _nearest,
    "free memory": _free,
    "swap in use": _swap,
    "other programs": _others,
    "taken by the hypervisor": _stolen,
    "load average, 1 min": _load_average,
    "clock source": _clock,
    "control, integers": _control("integer"),
    "control, memory": _control("memory"),
}


def _of_gpus(*states: State) -> dict[str, Cell]:
    """What each GPU says of itself, of all that any of the states names."""
    numbers = {gpu.get("index"): None for state in states for gpu in _gpus(state)}
    return {f"GPU {number}, {name}": _gpu_cell(number, ask) for number in numbers for name, ask in _OF_A_GPU.items()}


def _gpu_cell(number: JsonValue, ask: Cell) -> Cell:
    def cell(state: State) -> str:
        return next((ask(gpu) for gpu in _gpus(state) if gpu.get("index") == number), "")

    return cell


def _gpus(state: State) -> list[State]:
    found = state.get("gpus")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _reading(name: str, unit: str) -> Cell:
    def cell(gpu: State) -> str:
        value = _number(gpu.get(name))
        return "" if value is None else show_value(value, unit)

    return cell


def _throttle(gpu: State) -> str:
    return _listed(gpu.get("throttle"))


def _foreign(gpu: State) -> str:
    found = gpu.get("foreign")
    if not isinstance(found, list):
        return ""
    names = [f"{one.get('name') or 'a process'} (pid {one.get('pid')})" for one in found if isinstance(one, dict)]
    return one_line(", ".join(names) or "none")


_OF_A_GPU: Mapping[str, Cell] = {
    "temperature": _reading("temperature_c", "°C"),
    "room until it slows down": _reading("headroom_c", "°C"),
    "clock": _reading("sm_mhz", "MHz"),
    "power": _reading("power_w", "W"),
    "throttled": _throttle,
    "programs of others": _foreign,
}


def _listed(value: JsonValue) -> str:
    """Reasons in a row; `no` where it was looked for and there is none."""
    return one_line(", ".join(map(str, value)) or "no") if isinstance(value, list) else ""


def _text(value: JsonValue) -> str:
    return one_line(str(value)) if value not in (None, "") else ""


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

"""The machine of a job: its state before and after, and what Prometheus scraped of nodes and services meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult
from assay.report.numbers import NOTHING, show
from assay.report.sheet import Sheet
from assay.report.telemetry import show_value
from assay.report.wording import as_mappings, as_number, as_text, one_line, section
from assay.units import show_bytes

State = Mapping[str, JsonValue]
Cell = Callable[[State], str]
FACT = "monitoring"


def fitness_sheet(job: MultiRunJobResult) -> Sheet | None:
    """What was read of the machine before and after a job; None where it was not read."""
    before, after = (section(section(job.environment, when), "fitness") for when in ("before", "after"))
    if not before and not after:
        return None
    cells = {**_CELLS, **_of_gpus(before, after)}
    rows = [(name, cell(before), cell(after)) for name, cell in cells.items()]
    filled = tuple((name, first or NOTHING, last or NOTHING) for name, first, last in rows if first or last)
    absent = {
        one_line(f"not read: {what}: {why}"): None
        for state in (before, after)
        for what, why in section(state, "absent").items()
    }
    head = ("the machine", "before", "after")
    return Sheet("The machine before and after", head, filled, tuple(absent), frozenset({0, 1, 2}), (0, 1, 2))


def _governor(state: State) -> str:
    governors = section(section(state, "processor"), "governors")
    return one_line(
        ", ".join(name if len(governors) == 1 else f"{name} ({cores} cores)" for name, cores in governors.items())
    )


def _nearest(state: State) -> str:
    """The sensor with the least room below the temperature at which the machine slows down."""
    return _sensor(section(section(state, "heat"), "nearest"), "headroom_c")


def _sensor(sensor: State, reading: str) -> str:
    celsius = as_number(sensor.get(reading))
    return "" if celsius is None else one_line(f"{show_value(celsius, '°C')} ({sensor.get('sensor', '')})")


def _figure(part: str, name: str, write: Callable[[float], str]) -> Cell:
    """A number of a part of the state, in words; empty where it was not read."""

    def cell(state: State) -> str:
        value = as_number(section(state, part).get(name))
        return "" if value is None else write(value)

    return cell


def _of_all_cores(share: float) -> str:
    return f"{show(share, 1)} % of all cores"


def _control(part: str) -> Cell:
    """How long a part of the control workload took, and how far that is from this machine's own history."""

    def cell(state: State) -> str:
        control = section(state, "control")
        took = as_number(control.get(f"{part}_ms"))
        if took is None:
            return ""
        usual = section(section(control, "history"), part)
        drift, band = as_number(usual.get("drift_pct")), as_number(usual.get("band_pct"))
        beside = (
            "" if drift is None else f" ({drift:+.1f} %" + (f"; ±{band:.1f} % is usual)" if band is not None else ")")
        )
        return f"{show(took)} ms{beside}"

    return cell


# In the order in which a reader asks: how it is set, how warm it is, who else was there, how fast it is.
_CELLS: Mapping[str, Cell] = {
    "governor": _governor,
    "turbo": lambda state: as_text(section(state, "processor").get("turbo")),
    "clock held down": lambda state: _listed(section(state, "processor").get("held_down")),
    "hottest sensor": lambda state: _sensor(section(section(state, "heat"), "hottest"), "celsius"),
    "room until it slows down": _nearest,
    "free memory": _figure("memory", "available_bytes", show_bytes),
    "swap in use": _figure("memory", "swap_used_bytes", show_bytes),
    "other programs": _figure("load", "others_pct", _of_all_cores),
    "taken by the hypervisor": _figure("load", "steal_pct", _of_all_cores),
    "load average, 1 min": _figure("load", "average_1m", "{:g}".format),
    "clock source": lambda state: as_text(section(state, "clock").get("source")),
    "control, integers": _control("integer"),
    "control, memory": _control("memory"),
}


def _of_gpus(*states: State) -> dict[str, Cell]:
    """What each GPU says of itself, of all that any of the states names."""

    def cell(number: JsonValue, text_of: Cell) -> Cell:
        return lambda state: next((text_of(gpu) for gpu in _gpus(state) if gpu.get("index") == number), "")

    numbers = {gpu.get("index"): None for state in states for gpu in _gpus(state)}
    return {f"GPU {number}, {name}": cell(number, text_of) for number in numbers for name, text_of in _OF_A_GPU.items()}


def _gpus(state: State) -> list[State]:
    return as_mappings(state.get("gpus"))


def _reading(name: str, unit: str) -> Cell:
    def cell(gpu: State) -> str:
        value = as_number(gpu.get(name))
        return "" if value is None else show_value(value, unit)

    return cell


def _foreign(gpu: State) -> str:
    processes = gpu.get("foreign")
    if not isinstance(processes, list):
        return ""
    names = [
        f"{process.get('name') or 'a process'} (pid {process.get('pid')})"
        for process in processes
        if isinstance(process, dict)
    ]
    return one_line(", ".join(names) or "none")


_OF_A_GPU: Mapping[str, Cell] = {
    "temperature": _reading("temperature_c", "°C"),
    "room until it slows down": _reading("headroom_c", "°C"),
    "clock": _reading("sm_mhz", "MHz"),
    "power": _reading("power_w", "W"),
    "throttled": lambda gpu: _listed(gpu.get("throttle")),
    "programs of others": _foreign,
}


def _listed(value: JsonValue) -> str:
    """Reasons in a row; `no` where it was looked for and there is none."""
    return one_line(", ".join(map(str, value)) or "no") if isinstance(value, list) else ""


@dataclass(frozen=True, slots=True)
class ScrapedFigure:
    """One quantity of one node, GPU or service over the measured windows of all runs."""

    of: str
    title: str
    unit: str
    mean: float
    """Of the runs' means."""
    high: float
    readings: int
    gaps: int
    resets: int


def monitored_of(job: MultiRunJobResult) -> dict[int, Mapping[str, Any]]:
    """Run → what was scraped of it, for the runs that went well."""
    return {run.run_id: scraped for run in job.runs if run.error is None and (scraped := section(run.facts, FACT))}


def monitored_figures(job: MultiRunJobResult) -> list[ScrapedFigure]:
    """Every quantity over all runs, in the order in which they were found."""
    by_quantity: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for scraped in monitored_of(job).values():
        for row in _rows(scraped.get("figures")):
            by_quantity.setdefault((str(row["of"]), str(row["title"]), str(row["unit"])), []).append(row)
    return [
        ScrapedFigure(
            of,
            title,
            unit,
            fmean(row["mean"] for row in rows),
            max(row["max"] for row in rows),
            *(sum(int(row[key]) for row in rows) for key in ("readings", "gaps", "resets")),
        )
        for (of, title, unit), rows in by_quantity.items()
    ]


def _rows(rows: object) -> Iterator[Mapping[str, Any]]:
    """The figures that are whole; a document of another version may have others."""
    wanted = {"of", "title", "unit", "mean", "max", "readings", "gaps", "resets"}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and wanted <= row.keys() and isinstance(row["mean"], int | float):
            yield row


def monitoring_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each quantity; None where nothing was scraped."""
    figures = monitored_figures(job)
    notes = (*scrape_sentences(job), *_doubts(figures), *unscraped_sentences(job))
    if not figures:
        return Sheet("Nodes and services", ("of", "what"), (), notes) if notes else None
    rows = tuple(
        (
            one_line(figure.of),
            one_line(figure.title),
            show_value(figure.mean, figure.unit),
            show_value(figure.high, figure.unit),
            f"{figure.readings:,}",
        )
        for figure in figures
        if figure.high
    )
    still = [f"{figure.of}: {figure.title.lower()}" for figure in figures if not figure.high]
    zero = (one_line(f"Zero all the time: {'; '.join(still)}."),) if still else ()
    head = ("of", "what", "mean", "highest", "readings")
    return Sheet("Nodes and services", head, rows, (*zero, *notes), frozenset({0, 1}), kept=(0, 1, 2, 3))


def scrape_sentences(job: MultiRunJobResult) -> list[str]:
    """How often each node and service was scraped, and how often that failed."""
    total: dict[str, list[int]] = {}
    runs = list(monitored_of(job).values())
    for run in runs:
        for name, target in section(run, "targets").items():
            if isinstance(target, dict):
                row = total.setdefault(name, [0, 0, 0])
                for place, key in enumerate(("scrapes", "failed", "gaps")):
                    count = target.get(key)
                    row[place] += count if isinstance(count, int) else 0
    if not total:
        return []
    every = f"{runs[0].get('interval_s', 0):g} s"
    over = dict.fromkeys(str(row.get("over", "")) for row in runs)
    parts = [f"{name} {scrapes:,} times{_failed(failed, gaps)}" for name, (scrapes, failed, gaps) in total.items()]
    return [one_line(f"Prometheus scraped every {every}: {'; '.join(parts)}. Figures are over {' and '.join(over)}.")]


def _failed(failed: int, gaps: int) -> str:
    parts = [f"{failed:,} of them failed"] if failed else []
    parts += [f"{gaps:,} gap{'' if gaps == 1 else 's'}"] if gaps else []
    return f" ({', '.join(parts)})" if parts else ", none failed"


def _doubts(figures: list[ScrapedFigure]) -> list[str]:
    """Counters that began again: what they had counted until then is not in the figures."""
    again = [f"{figure.of}: {figure.title.lower()} ({figure.resets:,} ×)" for figure in figures if figure.resets]
    return [one_line(f"Counters began again, and that step has no rate: {'; '.join(again)}.")] if again else []


def unscraped_sentences(job: MultiRunJobResult) -> list[str]:
    """What could not be scraped, and why; each reason once."""
    reasons = {
        (name, str(why)): None for facts in monitored_of(job).values() for name, why in section(facts, "absent").items()
    }
    lost = {why: None for run in job.runs if run.error is None and (why := run.absent.get("metrics.parquet"))}
    return [
        *(one_line(f"not scraped: {name}: {why}") for name, why in reasons),
        *(f"no metrics: {one_line(why)}" for why in lost),
    ]

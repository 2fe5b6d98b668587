"""The telemetry of a job in words and figures: loads, power, clocks, heat, and what reading them cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from assay.analyse.records import MultiRunJobResult
from assay.metrics import describe
from assay.report.numbers import show
from assay.report.sheet import Sheet
from assay.report.wording import one_line
from assay.run.records import MachineTelemetry
from assay.units import show_bytes, show_seconds

# What a series is called for people; a series that is not here keeps its own name.
_OF = {
    "cpu_pct": "processor", "steal_pct": "taken by the hypervisor", "rss_bytes": "memory",
    "memory_available_bytes": "memory free", "gpu_util_pct": "utilisation", "gpu_mem_bytes": "memory",
    "power_w": "power", "sm_mhz": "clock", "mem_mhz": "memory clock", "cpu_mhz": "clock",
    "job_processes": "processes of the job", "temperature_c": "temperature",
    "disk_read_bytes_per_s": "disk, read", "disk_write_bytes_per_s": "disk, written",
    "net_in_bytes_per_s": "network, in", "net_out_bytes_per_s": "network, out",
    "swap_in_bytes_per_s": "swap, in", "swap_out_bytes_per_s": "swap, out",
}  # fmt: skip
_WHOSE = {
    "job": "the job", "others": "other programs", "machine": "the machine", "cpu": "the processor",
    "own": "whoever looked",
}  # fmt: skip
_UNITS = {"c": "°C", "mhz": "MHz", "bytes": "B", "pct": "%"}
# Counters and codes: their mean says nothing.
_UNTOLD = ("energy_j", "throttle_bits", "cpu_s")


@dataclass(frozen=True, slots=True)
class TelemetryFigure:
    """One series over the measured windows of all runs."""

    series: str
    unit: str
    mean: float
    """Of the runs' means."""
    low: float
    high: float
    runs: int


def seen_of(job: MultiRunJobResult) -> dict[int, MachineTelemetry]:
    """Run → what was seen of it, for the runs that went well."""
    return {run.run_id: run.seen for run in job.runs if run.seen is not None and run.error is None}


def figures_of(job: MultiRunJobResult) -> list[TelemetryFigure]:
    """Every series that was seen, over all runs."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seen in seen_of(job).values():
        for series, told in seen.statistics.items():
            if series.rpartition(".")[2] not in _UNTOLD and {"mean", "min", "max"} <= set(told):
                found.setdefault(series, []).append((told["mean"], told["min"], told["max"]))
    return [
        TelemetryFigure(
            series,
            unit_of(series.rpartition(".")[2]),
            fmean(one[0] for one in told),
            min(one[1] for one in told),
            max(one[2] for one in told),
            len(told),
        )
        for series, told in found.items()
    ]


def named(series: str) -> str:
    """A series in words: `gpu:0.power_w` is `GPU 0: power`."""
    source, _, name = series.rpartition(".")
    return one_line(f"{whose(source)}: {_OF.get(name, name)}" if source else series)


def whose(source: str) -> str:
    """What was looked at, in words: `gpu:0` is `GPU 0`."""
    kind, _, which = source.partition(":")
    if kind == "gpu":
        return f"GPU {which}".rstrip()
    if kind == "rapl":
        return which or "RAPL"
    return _WHOSE.get(source, source)


def unit_of(name: str) -> str:
    """The unit that the name of a series ends with; empty where it has none."""
    if name.endswith("bytes_per_s"):
        return "B/s"
    return _UNITS.get(name.rpartition("_")[2]) or describe(name).unit


def show_value(value: float, unit: str) -> str:
    """A reading with its unit; bytes as people read them."""
    if unit == "B":
        return show_bytes(value)
    if unit == "B/s":
        scale, unit = (1e6, "MB/s") if abs(value) >= 1e6 else (1e3, "kB/s")
        value /= scale
    places = 0 if abs(value) >= 100 else 1
    return f"{show(value, places)} {unit}".rstrip()


def seen_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each series: its mean, lowest and highest over the measured windows; None where nobody looked."""
    figures = sorted(figures_of(job), key=lambda one: _order(one.series))
    if not figures:
        return None
    rows = tuple(
        (named(one.series), *(show_value(value, one.unit) for value in (one.mean, one.low, one.high)))
        for one in figures
        if one.low or one.high
    )
    still = [named(one.series) for one in figures if not one.low and not one.high]
    zero = [f"Zero all the time: {'; '.join(still)}."] if still else []
    notes = (*zero, *looking_sentences(job), *unseen_sentences(job))
    return Sheet("seen from the side", ("what", "mean", "lowest", "highest"), rows, notes, kept=(0, 1, 2, 3))


def _order(series: str) -> tuple[int, str]:
    """The job first, then what was around it, then devices by their number."""
    first = ("job", "others", "machine", "own")
    source = series.rpartition(".")[0]
    return (first.index(source), "") if source in first else (len(first), source)


def looking_sentences(job: MultiRunJobResult) -> list[str]:
    """How often another process looked, and what that cost."""
    seen = list(seen_of(job).values())
    if not seen:
        return []
    told = [f"Another process looked every {show_seconds(seen[0].every_s)} over the measured window"]
    shares = [one.cost["cpu_pct"] for one in seen if "cpu_pct" in one.cost]
    looks = [one.cost["look_ms"] for one in seen if "look_ms" in one.cost]
    slowest = [one.cost["slowest_look_ms"] for one in seen if "slowest_look_ms" in one.cost]
    if shares:
        told.append(f"it took {show(max(shares), 2)} % of one core")
    if looks:
        most = f" (the slowest {show(max(slowest), 2)} ms)" if slowest else ""
        told.append(f"a look took {show(fmean(looks), 2)} ms{most}")
    return [f"{'; '.join(told)}."]


def unseen_sentences(job: MultiRunJobResult) -> list[str]:
    """What could not be seen, and why; each reason once."""
    told = {(what, why): None for seen in seen_of(job).values() for what, why in seen.absent.items()}
    return [one_line(f"not seen: {_part(what)}: {why}") for what, why in told]


def _part(what: str) -> str:
    """What could not be seen, in words: `energy:gpu:0` is `energy of GPU 0`, `machine.cpu_mhz` `the machine: clock`."""
    kind, _, which = what.partition(":")
    if kind == "energy" and which:
        return f"energy of {whose(which)}"
    return named(what) if "." in what else whose(what)


def throttling_sentences(job: MultiRunJobResult) -> list[str]:
    """Which devices held their clocks down, in which runs and why."""
    return _by_run(
        job,
        (
            (run, f"{whose(device)} held its clocks down: {', '.join(reasons)}")
            for run, seen in seen_of(job).items()
            for device, reasons in seen.throttled.items()
            if reasons
        ),
    )


def foreign_sentences(job: MultiRunJobResult) -> list[str]:
    """Which other programs computed on a device of the job, and in which runs."""
    return _by_run(
        job,
        (
            (run, f"other programs computed on {whose(device)}: {', '.join(names)}")
            for run, seen in seen_of(job).items()
            for device, names in seen.foreign.items()
            if names
        ),
    )


def _by_run(job: MultiRunJobResult, told: Iterable[tuple[int, str]]) -> list[str]:
    """Sentences, each once, with the runs of which it is true."""
    runs: dict[str, list[int]] = {}
    for run, sentence in told:
        runs.setdefault(one_line(sentence), []).append(run)
    every = len(seen_of(job))
    return [f"{sentence} ({_runs(found, every)})" for sentence, found in runs.items()]


def _runs(found: list[int], every: int) -> str:
    if len(found) == every > 1:
        return f"in all {every} runs"
    return f"in run{'' if len(found) == 1 else 's'} {', '.join(map(str, found))}"

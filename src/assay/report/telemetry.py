"""The telemetry of a job in words and figures: loads, clocks, heat, what reading them cost; energy and its price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.analyse.text import run_names
from assay.metrics import base_name, describe
from assay.report.numbers import NOTHING, decimals_of, show, show_statistics
from assay.report.sheet import Sheet, without_empty
from assay.report.wording import as_text, one_line, section, verdict_word
from assay.run.records import Energy, MachineTelemetry, SingleRunResult
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
    "own": "the probe itself",
}  # fmt: skip
_UNITS = {"c": "°C", "mhz": "MHz", "bytes": "B", "pct": "%"}
# Counters and codes: their mean says nothing.
_OMITTED = ("energy_j", "throttle_bits", "cpu_s")


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


def telemetry_of(job: MultiRunJobResult) -> dict[int, MachineTelemetry]:
    """Run → what was seen of it, for the runs that went well."""
    return {run.run_id: run.seen for run in job.runs if run.seen is not None and run.error is None}


def figures_of(job: MultiRunJobResult) -> list[TelemetryFigure]:
    by_series: dict[str, list[tuple[float, float, float]]] = {}
    for seen in telemetry_of(job).values():
        for series, figures in seen.statistics.items():
            if series.rpartition(".")[2] not in _OMITTED and {"mean", "min", "max"} <= set(figures):
                by_series.setdefault(series, []).append((figures["mean"], figures["min"], figures["max"]))
    return [
        TelemetryFigure(
            series,
            unit_of(series.rpartition(".")[2]),
            fmean(row[0] for row in rows),
            min(row[1] for row in rows),
            max(row[2] for row in rows),
            len(rows),
        )
        for series, rows in by_series.items()
    ]


def named(series: str) -> str:
    """A series in words: `gpu:0.power_w` is `GPU 0: power`."""
    source, _, name = series.rpartition(".")
    return one_line(f"{whose(source)}: {_OF.get(name, name)}" if source else series)


def whose(source: str) -> str:
    """What was looked at, in words: `gpu:0` is `GPU 0`."""
    kind, _, name = source.partition(":")
    if kind == "gpu":
        return f"GPU {name}".rstrip()
    if kind == "rapl":
        return name or "RAPL"
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


def telemetry_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each series: its mean, lowest and highest over the measured windows; None without telemetry."""
    figures = sorted(figures_of(job), key=lambda figure: _order(figure.series))
    if not figures:
        return None
    rows = tuple(
        (named(figure.series), *(show_value(value, figure.unit) for value in (figure.mean, figure.low, figure.high)))
        for figure in figures
        if figure.low or figure.high
    )
    still = [named(figure.series) for figure in figures if not figure.low and not figure.high]
    zero = [f"Zero all the time: {'; '.join(still)}."] if still else []
    notes = (*zero, *sampling_sentences(job), *unseen_sentences(job))
    return Sheet("Telemetry", ("what", "mean", "lowest", "highest"), rows, notes, kept=(0, 1, 2, 3))


def _order(series: str) -> tuple[int, str]:
    """The job first, then what was around it, then devices by their number."""
    first = ("job", "others", "machine", "own")
    source = series.rpartition(".")[0]
    return (first.index(source), "") if source in first else (len(first), source)


def sampling_sentences(job: MultiRunJobResult) -> list[str]:
    """How often another process looked, and what that cost."""
    seen = list(telemetry_of(job).values())
    if not seen:
        return []
    parts = [f"Another process looked every {show_seconds(seen[0].every_s)} over the measured window"]
    shares = [run.cost["cpu_pct"] for run in seen if "cpu_pct" in run.cost]
    looks = [run.cost["look_ms"] for run in seen if "look_ms" in run.cost]
    slowest = [run.cost["slowest_look_ms"] for run in seen if "slowest_look_ms" in run.cost]
    if shares:
        parts.append(f"it took {show(max(shares), 2)} % of one core")
    if looks:
        most = f" (the slowest {show(max(slowest), 2)} ms)" if slowest else ""
        parts.append(f"a look took {show(fmean(looks), 2)} ms{most}")
    return [f"{'; '.join(parts)}."]


def unseen_sentences(job: MultiRunJobResult) -> list[str]:
    """What could not be seen, and why; each reason once."""
    reasons = {(what, why): None for seen in telemetry_of(job).values() for what, why in seen.absent.items()}
    return [one_line(f"not seen: {_part(what)}: {why}") for what, why in reasons]


def _part(what: str) -> str:
    """What could not be seen, in words: `energy:gpu:0` is `energy of GPU 0`, `machine.cpu_mhz` `the machine: clock`."""
    kind, _, name = what.partition(":")
    if kind == "energy" and name:
        return f"energy of {whose(name)}"
    return named(what) if "." in what else whose(what)


def throttling_sentences(job: MultiRunJobResult) -> list[str]:
    """Which devices held their clocks down, in which runs and why."""
    return _by_run(
        job,
        (
            (run, f"{whose(device)} held its clocks down: {', '.join(reasons)}")
            for run, seen in telemetry_of(job).items()
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
            for run, seen in telemetry_of(job).items()
            for device, names in seen.foreign.items()
            if names
        ),
    )


def _by_run(job: MultiRunJobResult, sentences: Iterable[tuple[int, str]]) -> list[str]:
    """Sentences, each once, with the runs of which it is true."""
    runs: dict[str, list[int]] = {}
    for run, sentence in sentences:
        runs.setdefault(one_line(sentence), []).append(run)
    every = len(telemetry_of(job))
    return [f"{sentence} ({_runs(count, every)})" for sentence, count in runs.items()]


def _runs(runs: list[int], every: int) -> str:
    if len(runs) == every > 1:
        return f"in all {every} runs"
    return f"in {run_names(runs)}"


# What is made of energy, and so has its grade.
GRADED = frozenset({"power_w", "energy_j", "energy_per_item_j", "energy_per_token_j", "items_per_j", "tokens_per_j"})
_HOW = {
    "counter": "read from the",
    "sampled": "summed from samples of the",
    "estimated": "estimated from the",
}
_FEWEST_JOBS = 2  # one job alone has nothing to stand beside
# Title of a column → the metric that it shows.
_SIDE_BY_SIDE = {
    "throughput/s": "throughput_per_s",
    "tokens/s": "output_tokens_per_s",
    "W": "power_w",
    "J/item": "energy_per_item_j",
    "J/token": "energy_per_token_j",
    "items/J": "items_per_j",
    "tokens/J": "tokens_per_j",
    "items per price": "items_per_cost",
    "tokens per price": "tokens_per_cost",
}
# Readings that leave the energy of a window open by less than this are as good as exact.
_EXACT = 0.02
_EFFICIENCY = frozenset({"items_per_j", "tokens_per_j", "items_per_cost", "tokens_per_cost"})


@dataclass(frozen=True, slots=True)
class EnergyUse:
    """What one thing used over the measured windows of a job: the median of its runs."""

    source: str
    scope: str
    grade: str
    joules: float
    low_j: float | None
    high_j: float | None
    watts: float | None
    idle_w: float | None
    runs: int


def used_by(job: MultiRunJobResult) -> list[EnergyUse]:
    """The energy of each thing that was read, over the good runs of a job."""
    by_source: dict[tuple[str, str, str], list[Energy]] = {}
    for run in _good(job):
        for reading in run.seen.energy if run.seen else ():
            by_source.setdefault((reading.source, reading.scope, reading.grade), []).append(reading)
    return [_used(key, readings) for key, readings in by_source.items()]


def _used(key: tuple[str, str, str], readings: list[Energy]) -> EnergyUse:
    source, scope, grade = key
    watts = [reading.watts for reading in readings if reading.seconds > 0]
    idle = [reading.idle_w for reading in readings if reading.idle_w is not None]
    lows = [reading.low_j for reading in readings if reading.low_j is not None]
    highs = [reading.high_j for reading in readings if reading.high_j is not None]
    return EnergyUse(
        one_line(source),
        scope,
        grade,
        median(reading.joules for reading in readings),
        median(lows) if lows else None,
        median(highs) if highs else None,
        median(watts) if watts else None,
        median(idle) if idle else None,
        len(readings),
    )


def grade_of(job: MultiRunJobResult) -> str:
    """How far the energy of a job can be believed; empty where it has none, several words where its runs differ."""
    grades = (as_text(fact.get("grade")) for fact in _facts(job))
    return " and ".join(dict.fromkeys(word for word in grades if word))


def with_grade(name: str, shown: str, job: MultiRunJobResult) -> str:
    """A metric as it is shown, with its grade where it is made of energy."""
    grade = grade_of(job) if base_name(name) in GRADED else ""
    return f"{shown} [{grade}]" if grade else shown


def energy_sentence(job: MultiRunJobResult) -> str:
    """What a job used, how that was read and what the devices use when idle; empty without telemetry.

    A job's energy is that of the devices it used; what was read of others stands in the table of sources alone.
    """
    if job.state != "done":
        return ""
    facts = _facts(job)
    if not facts:
        return _no_energy(job)
    idle = _idle_w(facts)
    rest = "" if idle is None else f"; {show(idle)} W when idle"
    return one_line(", ".join([*_amounts(job), _sources(facts)]) + rest + _open_ends(facts))


def _open_ends(facts: Iterable[Mapping[str, JsonValue]]) -> str:
    """How far the readings at the ends of the windows leave the energy open; empty where that is next to nothing."""
    lows, highs = [], []
    for fact in facts:
        joules, low, high = fact.get("joules"), fact.get("low_j"), fact.get("high_j")
        if isinstance(joules, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
            lows.append(low / joules)
            highs.append(high / joules)
    if not lows or fmean(highs) - fmean(lows) <= 2 * _EXACT:
        return ""
    low_pct, high_pct = 100 * (fmean(lows) - 1), 100 * (fmean(highs) - 1)
    return (
        f"; the energy is known to {low_pct:+.2g} % to {high_pct:+.2g} %, as its readings are far apart for this window"
    )


def _amounts(job: MultiRunJobResult) -> list[str]:
    """Energy per item and per token where there is such a metric, else of the whole window; then the mean power."""
    names = {"energy_per_item_j": "J per item", "energy_per_token_j": "J per token"}
    amounts = [f"{_centre(job, name)} {words}" for name, words in names.items() if name in job.metrics]
    if not amounts and "energy_j" in job.metrics:
        amounts = [f"{_centre(job, 'energy_j')} J in the measured window"]
    return [*amounts, *([f"{_centre(job, 'power_w')} W on average"] if "power_w" in job.metrics else [])]


def _centre(job: MultiRunJobResult, name: str) -> str:
    stats = job.metrics[name]
    return show(stats.median, decimals_of(stats))


def _sources(facts: Iterable[Mapping[str, JsonValue]]) -> str:
    """Where the figures were read, by grade: grades are never put together."""
    by_grade: dict[str, dict[str, None]] = {}
    for fact in facts:
        sources = by_grade.setdefault(as_text(fact.get("grade")), {})
        sources |= dict.fromkeys(map(str, _list(fact.get("sources"))))
    return "; ".join(f"{_HOW.get(grade, grade)} {' and the '.join(names)}" for grade, names in by_grade.items())


def _no_energy(job: MultiRunJobResult) -> str:
    """Why there is no energy, as the probe says it."""
    reasons = [run.absent.get("energy_j") or _unseen(run) for run in _good(job)]
    distinct = dict.fromkeys(reason for reason in reasons if reason)
    return one_line(f"no energy: {'; '.join(distinct)}") if distinct else ""


def _unseen(run: SingleRunResult) -> str:
    absent = run.seen.absent if run.seen else {}
    return "; ".join(dict.fromkeys(why for what, why in absent.items() if what.partition(":")[0] in ("energy", "rapl")))


def energy_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each thing whose energy was read; None where there is none."""
    rows = tuple(
        (
            use.source,
            show(use.joules),
            _between(use),
            show(use.watts),
            show(use.idle_w),
            use.grade,
            use.scope,
            str(use.runs),
        )
        for use in used_by(job)
    )
    if not rows:
        return None
    head = ("read from", "J", "known between", "W", "W when idle", "grade", "of", "runs")
    note = "Medians of the runs, over the measured window; idle power is apart and not subtracted."
    return without_empty(Sheet("Energy and price", head, rows, (note,), frozenset({0, 5, 6}), (0, 1, 3, 5)))


def _between(use: EnergyUse) -> str:
    """The least and the most that the readings next to the ends of the window allow."""
    return NOTHING if use.low_j is None or use.high_j is None else f"{show(use.low_j)} to {show(use.high_j)}"


def price_of(job: MultiRunJobResult) -> Mapping[str, JsonValue]:
    """What the machine of a job costs, as the benchmark file gave it; empty where it gave none."""
    return next((price for run in _good(job) if (price := section(run.facts, "price"))), {})


def price_sentence(job: MultiRunJobResult) -> str:
    """The price that a job's figures were made with: `2.5 USD an hour (looked up 2026-03-01)`."""
    price = price_of(job)
    per_hour = price.get("per_hour")
    if not isinstance(per_hour, int | float):
        return ""
    date = price.get("date")
    looked_up = f" (looked up {date})" if date else ""
    return one_line(f"{per_hour:g} {price.get('currency') or ''} an hour{looked_up}")


def efficiency_sheet(record: CampaignRecord, labels: Mapping[str, str]) -> Sheet | None:
    """All jobs per watt and per price, side by side; None where fewer than two have such a figure."""
    jobs = [job for job in record.jobs if job.state == "done"]
    if sum(bool(_EFFICIENCY & set(job.metrics)) for job in jobs) < _FEWEST_JOBS:
        return None
    rows = tuple(
        (
            labels[job.job],
            *(_side(job, metric) for metric in _SIDE_BY_SIDE.values()),
            grade_of(job) or NOTHING,
            price_sentence(job) or NOTHING,
            verdict_word(job),
        )
        for job in jobs
    )
    head = ("job", *_SIDE_BY_SIDE, "grade", "price", "verdict")
    last = len(head) - 1
    notes = (
        "Medians of the runs with their doubt. Items per joule is throughput per watt; energy includes idle power.",
        "Figures of different grades or devices do not compare. Figures per price are estimates: of the machine alone.",
    )
    words = frozenset({0, last - 2, last - 1, last})
    return without_empty(Sheet("Per watt and per price", head, rows, notes, words, (0, 6, 7, 8, 9, last), verdict=last))


def _side(job: MultiRunJobResult, metric: str) -> str:
    stats = job.metrics.get(metric)
    if stats is None:
        return NOTHING
    shown = show_statistics(stats, metric)
    return f"{shown.median} {shown.spread}"


def energy_columns(job: MultiRunJobResult) -> dict[str, str | float | None]:
    """What a CSV row says of energy and price, beside the metrics themselves; empty without telemetry."""
    if not any(run.seen for run in job.runs) and not price_of(job):
        return {}
    price = price_of(job)
    facts = _facts(job)
    sources = dict.fromkeys(str(name) for fact in facts for name in _list(fact.get("sources")))
    per_hour = price.get("per_hour")
    return {
        "EnergyGrade": grade_of(job),
        "EnergySource": "; ".join(sources),
        "IdlePowerW": _idle_w(facts),
        "NoEnergy": "" if facts else energy_sentence(job).removeprefix("no energy: "),
        "PricePerHour": float(per_hour) if isinstance(per_hour, int | float) else None,
        "PriceCurrency": as_text(price.get("currency")),
        "PriceDate": as_text(price.get("date")),
    }


def _facts(job: MultiRunJobResult) -> list[Mapping[str, JsonValue]]:
    """What each good run tells of its energy, for those that tell it."""
    return [facts for run in _good(job) if (facts := section(run.facts, "energy"))]


def _idle_w(facts: Iterable[Mapping[str, JsonValue]]) -> float | None:
    idle = [float(watts) for fact in facts if isinstance(watts := fact.get("idle_w"), int | float)]
    return median(idle) if idle else None


def _good(job: MultiRunJobResult) -> list[SingleRunResult]:
    return [run for run in job.runs if run.error is None]


def _list(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list | tuple) else []

"""Energy with its grade, and what it costs: sentences, and one table of all jobs per watt and per price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from pydantic import JsonValue

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.metrics import base_name
from assay.report.numbers import NOTHING, decimals_of, show, show_statistics
from assay.report.sheet import Sheet, without_empty
from assay.report.wording import one_line, section, verdict_word
from assay.run.records import Energy, SingleRunResult

# What is made of energy, and so has its grade.
GRADED = frozenset(
    {"power_w", "energy_j", "energy_per_item_j", "energy_per_token_j", "items_per_j", "tokens_per_j"}
)  # fmt: skip
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
_EFFICIENCY = frozenset({"items_per_j", "tokens_per_j", "items_per_cost", "tokens_per_cost"})


@dataclass(frozen=True, slots=True)
class EnergyUse:
    """What one thing used over the measured windows of a job: the median of its runs."""

    source: str
    scope: str
    grade: str
    joules: float
    watts: float | None
    idle_w: float | None
    runs: int


def used_by(job: MultiRunJobResult) -> list[EnergyUse]:
    """The energy of each thing that was read, over the good runs of a job."""
    found: dict[tuple[str, str, str], list[Energy]] = {}
    for run in _good(job):
        for one in run.seen.energy if run.seen else ():
            found.setdefault((one.source, one.scope, one.grade), []).append(one)
    return [_used(key, readings) for key, readings in found.items()]


def _used(key: tuple[str, str, str], readings: list[Energy]) -> EnergyUse:
    source, scope, grade = key
    watts = [one.watts for one in readings if one.seconds > 0]
    idle = [one.idle_w for one in readings if one.idle_w is not None]
    return EnergyUse(
        one_line(source),
        scope,
        grade,
        median(one.joules for one in readings),
        median(watts) if watts else None,
        median(idle) if idle else None,
        len(readings),
    )


def grade_of(job: MultiRunJobResult) -> str:
    """How far the energy of a job can be believed; empty where it has none, several words where its runs differ."""
    told = (_text(one.get("grade")) for one in _facts(job))
    return " and ".join(dict.fromkeys(word for word in told if word))


def with_grade(name: str, shown: str, job: MultiRunJobResult) -> str:
    """A metric as it is shown, with its grade where it is made of energy."""
    grade = grade_of(job) if base_name(name) in GRADED else ""
    return f"{shown} [{grade}]" if grade else shown


def energy_sentence(job: MultiRunJobResult) -> str:
    """What a job used, how that was read and what the devices use when idle; empty where nobody looked.

    A job's energy is that of the devices it used; what was read of others stands in the table of sources alone.
    """
    if job.state != "done":
        return ""
    told = _facts(job)
    if not told:
        return _no_energy(job)
    idle = _idle_w(told)
    rest = "" if idle is None else f"; {show(idle)} W when idle"
    return one_line(", ".join([*_amounts(job), _sources(told)]) + rest)


def _amounts(job: MultiRunJobResult) -> list[str]:
    """Energy per item and per token where there is such a metric, else of the whole window; then the mean power."""
    names = {"energy_per_item_j": "J per item", "energy_per_token_j": "J per token"}
    told = [f"{_centre(job, name)} {words}" for name, words in names.items() if name in job.metrics]
    if not told and "energy_j" in job.metrics:
        told = [f"{_centre(job, 'energy_j')} J in the measured window"]
    return [*told, *([f"{_centre(job, 'power_w')} W on average"] if "power_w" in job.metrics else [])]


def _centre(job: MultiRunJobResult, name: str) -> str:
    stats = job.metrics[name]
    return show(stats.median, decimals_of(stats))


def _sources(told: Iterable[Mapping[str, JsonValue]]) -> str:
    """Where the figures were read, by grade: grades are never put together."""
    by_grade: dict[str, dict[str, None]] = {}
    for one in told:
        found = by_grade.setdefault(_text(one.get("grade")), {})
        found |= dict.fromkeys(map(str, _list(one.get("sources"))))
    return "; ".join(f"{_HOW.get(grade, grade)} {' and the '.join(names)}" for grade, names in by_grade.items())


def _no_energy(job: MultiRunJobResult) -> str:
    """Why there is no energy, as the probe says it."""
    reasons = [run.absent.get("energy_j") or _unseen(run) for run in _good(job)]
    told = dict.fromkeys(reason for reason in reasons if reason)
    return one_line(f"no energy: {'; '.join(told)}") if told else ""


def _unseen(run: SingleRunResult) -> str:
    absent = run.seen.absent if run.seen else {}
    return "; ".join(dict.fromkeys(why for what, why in absent.items() if what.partition(":")[0] in ("energy", "rapl")))


def energy_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each thing whose energy was read; None where there is none."""
    rows = tuple(
        (one.source, show(one.joules), show(one.watts), show(one.idle_w), one.grade, one.scope, str(one.runs))
        for one in used_by(job)
    )
    if not rows:
        return None
    head = ("read from", "J", "W", "W when idle", "grade", "of", "runs")
    note = "Medians of the runs, over the measured window; idle power is apart and not subtracted."
    return Sheet("energy", head, rows, (note,), frozenset({0, 4, 5}), (0, 1, 2, 4))


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
    """What a CSV row says of energy and price, beside the metrics themselves; empty where nobody looked."""
    if not any(run.seen for run in job.runs) and not price_of(job):
        return {}
    price = price_of(job)
    told = _facts(job)
    sources = dict.fromkeys(str(name) for one in told for name in _list(one.get("sources")))
    per_hour = price.get("per_hour")
    return {
        "EnergyGrade": grade_of(job),
        "EnergySource": "; ".join(sources),
        "IdlePowerW": _idle_w(told),
        "NoEnergy": "" if told else energy_sentence(job).removeprefix("no energy: "),
        "PricePerHour": float(per_hour) if isinstance(per_hour, int | float) else None,
        "PriceCurrency": _text(price.get("currency")),
        "PriceDate": _text(price.get("date")),
    }


def _facts(job: MultiRunJobResult) -> list[Mapping[str, JsonValue]]:
    """What each good run tells of its energy, for those that tell it."""
    return [facts for run in _good(job) if (facts := section(run.facts, "energy"))]


def _idle_w(told: Iterable[Mapping[str, JsonValue]]) -> float | None:
    idle = [float(watts) for one in told if isinstance(watts := one.get("idle_w"), int | float)]
    return median(idle) if idle else None


def _good(job: MultiRunJobResult) -> list[SingleRunResult]:
    return [run for run in job.runs if run.error is None]


def _list(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list | tuple) else []


def _text(value: JsonValue) -> str:
    return one_line(str(value)) if value not in (None, "") else ""

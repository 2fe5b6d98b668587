"""What Prometheus saw of a job's nodes and services, as a small table: mean and highest value, and how scrapes went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from assay.analyse.records import MultiRunJobResult
from assay.report.headline import section
from assay.report.sheet import Sheet
from assay.report.telemetry import show_value
from assay.report.wording import one_line

FACT = "monitoring"


@dataclass(frozen=True, slots=True)
class Figure:
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
    return {run.run_id: told for run in job.runs if run.error is None and (told := section(run.facts, FACT))}


def monitored_figures(job: MultiRunJobResult) -> list[Figure]:
    """Every quantity over all runs, in the order in which they were found."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for told in monitored_of(job).values():
        for one in _rows(told.get("figures")):
            found.setdefault((str(one["of"]), str(one["title"]), str(one["unit"])), []).append(one)
    return [
        Figure(
            of,
            title,
            unit,
            fmean(one["mean"] for one in rows),
            max(one["max"] for one in rows),
            *(sum(int(one[key]) for one in rows) for key in ("readings", "gaps", "resets")),
        )
        for (of, title, unit), rows in found.items()
    ]


def _rows(told: object) -> Iterator[Mapping[str, Any]]:
    """The figures that are whole; a document of another version may have others."""
    wanted = {"of", "title", "unit", "mean", "max", "readings", "gaps", "resets"}
    for one in told if isinstance(told, list) else ():
        if isinstance(one, dict) and wanted <= one.keys() and isinstance(one["mean"], int | float):
            yield one


def monitoring_sheet(job: MultiRunJobResult) -> Sheet | None:
    """One line for each quantity; None where nothing was scraped."""
    figures = monitored_figures(job)
    notes = (*scrape_sentences(job), *_doubts(figures), *unscraped_sentences(job))
    if not figures:
        return Sheet("nodes and services", ("of", "what"), (), notes) if notes else None
    rows = tuple(
        (
            one_line(one.of),
            one_line(one.title),
            show_value(one.mean, one.unit),
            show_value(one.high, one.unit),
            f"{one.readings:,}",
        )
        for one in figures
        if one.high
    )
    still = [f"{one.of}: {one.title.lower()}" for one in figures if not one.high]
    zero = (one_line(f"Zero all the time: {'; '.join(still)}."),) if still else ()
    head = ("of", "what", "mean", "highest", "readings")
    return Sheet("nodes and services", head, rows, (*zero, *notes), frozenset({0, 1}), kept=(0, 1, 2, 3))


def scrape_sentences(job: MultiRunJobResult) -> list[str]:
    """How often each node and service was scraped, and how often that failed."""
    total: dict[str, list[int]] = {}
    told = list(monitored_of(job).values())
    for one in told:
        for name, target in section(one, "targets").items():
            if isinstance(target, dict):
                row = total.setdefault(name, [0, 0, 0])
                for place, key in enumerate(("scrapes", "failed", "gaps")):
                    count = target.get(key)
                    row[place] += count if isinstance(count, int) else 0
    if not total:
        return []
    every = f"{told[0].get('interval_s', 0):g} s"
    over = dict.fromkeys(str(one.get("over", "")) for one in told)
    parts = [f"{name} {scrapes:,} times{_failed(failed, gaps)}" for name, (scrapes, failed, gaps) in total.items()]
    return [one_line(f"Prometheus scraped every {every}: {'; '.join(parts)}. Figures are over {' and '.join(over)}.")]


def _failed(failed: int, gaps: int) -> str:
    parts = [f"{failed:,} of them failed"] if failed else []
    parts += [f"{gaps:,} gap{'' if gaps == 1 else 's'}"] if gaps else []
    return f" ({', '.join(parts)})" if parts else ", none failed"


def _doubts(figures: list[Figure]) -> list[str]:
    """Counters that began again: what they had counted until then is not in the figures."""
    again = [f"{one.of}: {one.title.lower()} ({one.resets:,} ×)" for one in figures if one.resets]
    return [one_line(f"Counters began again, and that step has no rate: {'; '.join(again)}.")] if again else []


def unscraped_sentences(job: MultiRunJobResult) -> list[str]:
    """What could not be scraped, and why; each reason once."""
    told = {
        (name, str(why)): None for one in monitored_of(job).values() for name, why in section(one, "absent").items()
    }
    lost = {why: None for run in job.runs if run.error is None and (why := run.absent.get("metrics.parquet"))}
    return [
        *(one_line(f"not scraped: {name}: {why}") for name, why in told),
        *(f"no metrics: {one_line(why)}" for why in lost),
    ]

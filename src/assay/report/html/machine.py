"""The parts of the report that speak of the hardware: tests of a device, energy, what was seen, the machine's state."""

from __future__ import annotations

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.report.device import device_sheet
from assay.report.energy import efficiency_sheet, energy_sentence, energy_sheet, grade_of, price_sentence
from assay.report.fitness import fitness_sheet
from assay.report.html.markup import Markup, el, join
from assay.report.html.tables import DASH, table, verdict_mark
from assay.report.monitoring import monitoring_sheet
from assay.report.numbers import NOTHING
from assay.report.sheet import Sheet
from assay.report.telemetry import foreign_sentences, seen_sheet, throttling_sentences


def energy_line(job: MultiRunJobResult) -> Markup | None:
    """Energy with its grade, or why there is none, and the machine's price; None where nobody looked."""
    energy, price = energy_sentence(job), price_sentence(job)
    told = [
        el("strong", "Energy: ") if grade_of(job) else None,
        energy[:1].upper() + energy[1:],
        ". " if energy and price else None,
        join((el("strong", "Price: "), price)) if price else None,
    ]
    return el("p", *told, class_="quiet") if energy or price else None


def hardware_tables(job: MultiRunJobResult) -> list[tuple[str, Markup, bool]]:
    """Title and content of each part that the job has something for, and whether it is shown at once."""
    told = (*throttling_sentences(job), *foreign_sentences(job))
    seen = seen_sheet(job)
    watched = join((_sentences(told), sheet_table(seen) if seen else None)) if told or seen else None
    device, energy, state = device_sheet(job), energy_sheet(job), fitness_sheet(job)
    scraped = monitoring_sheet(job)
    found = (
        ("Tests of the device", sheet_table(device) if device else None, True),
        ("Energy", sheet_table(energy) if energy else None, True),
        ("Seen from the side", watched, False),  # the picture says most of it
        ("Nodes and services", sheet_table(scraped) if scraped else None, True),
        ("The machine before and after", sheet_table(state) if state else None, True),
    )
    return [(title, content, shown) for title, content, shown in found if content is not None]


def efficiency_summary(record: CampaignRecord, labels: dict[str, str], anchors: dict[str, str]) -> Markup | None:
    """All jobs per watt and per price in one table; None where fewer than two have such a figure."""
    sheet = efficiency_sheet(record, labels)
    if sheet is None:
        return None
    hrefs = {labels[job.job]: f"#{anchors[job.job]}" for job in record.jobs}
    rows = [(el("a", row[0], href=hrefs[row[0]]), *map(_cell, row[1:-1]), verdict_mark(row[-1])) for row in sheet.rows]
    drawn = table(sheet.head, rows, numeric=_numeric(sheet), name=sheet.title)
    return join((el("h3", sheet.title), drawn, _sentences(sheet.notes)))


def sheet_table(sheet: Sheet) -> Markup:
    """A small table with its notes."""
    rows = [tuple(map(_cell, row)) for row in sheet.rows]
    drawn = table(sheet.head, rows, numeric=_numeric(sheet), name=sheet.title)
    return join((drawn, _sentences(sheet.notes)))


def _numeric(sheet: Sheet) -> list[int]:
    return [place for place in range(len(sheet.head)) if place not in sheet.words]


def _cell(text: str) -> str:
    return DASH if text == NOTHING else text


def _sentences(told: tuple[str, ...]) -> Markup | None:
    if len(told) > 1:
        return el("ul", *(el("li", one) for one in told), class_="quiet")
    return el("p", told[0], class_="quiet") if told else None

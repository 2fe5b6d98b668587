"""The digest as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from assay.alert.digest.build import short
from assay.alert.digest.records import MOST_PICTURES, Digest, Movement, MovementGroup, ResultLink
from assay.alert.digest.wording import (
    CAUSES,
    READING,
    DigestSection,
    change_text,
    group_title,
    minute,
    movement_sheet,
    sections,
    series_title,
    summary,
    title,
)
from assay.report.html.chart import Child, Markup, el, join, page_head
from assay.report.html.series import SeriesChange, SeriesPicture, SeriesPoint, draw_series
from assay.report.html.tables import DASH, sheet_table, table

_MOVED = "What moved"
_SIGNS = {"worse": "▼", "better": "▲", "cannot tell": "◆"}

Spots = Mapping[str, Sequence[SeriesPoint]]
Past = Mapping[str, Sequence[Movement]]


def digest_html(digest: Digest, spots: Spots, past: Past | None = None) -> str:
    history = past if past is not None else _by_series(digest.movements)
    body = el(
        "body",
        _header(digest),
        el(
            "main",
            _moved(digest, spots, history),
            *(_listed(digest, section) for section in sections(digest)),
            _reading(),
        ),
        el("footer", f"Made by assay{f' {digest.assay_version}' if digest.assay_version else ''}."),
    )
    head = page_head(title(digest), "style.css", "chart.css", "digest.css")
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def picture_of(
    name: str,
    unit: str,
    spots: Sequence[SeriesPoint],
    movements: Iterable[Movement],
    *,
    since: float | None = None,
    until: float | None = None,
) -> SeriesPicture:
    turns = tuple(
        SeriesChange(
            movement.at,
            movement.good_at,
            movement.end_at,
            movement.kind,
            movement.before,
            movement.after,
            movement.answer,
            change_text(movement),
            movement.cause,
            movement.state,
            movement.unconfirmed,
        )
        for movement in sorted(movements, key=lambda movement: movement.at)
    )
    return SeriesPicture(name, unit, tuple(spots), turns, until, since)


def _by_series(movements: Iterable[Movement]) -> dict[str, list[Movement]]:
    by_series: dict[str, list[Movement]] = {}
    for movement in movements:
        by_series.setdefault(movement.series.id, []).append(movement)
    return by_series


def _header(digest: Digest) -> Markup:
    facts = [
        ("from", f"{minute(digest.since)} UTC"),
        ("to", f"{minute(digest.until)} UTC"),
        ("read from", digest.source),
    ]
    names = [("moved", _MOVED), *((section.anchor, section.sheet.title) for section in sections(digest))]
    ways = [el("li", el("a", name, href=f"#{anchor}")) for anchor, name in names]
    return el(
        "header",
        el("h1", title(digest)),
        el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in facts)),
        el("p", summary(digest), class_="counts"),
        el("nav", el("ul", *ways, class_="contents"), aria_label="Contents"),
    )


def _moved(digest: Digest, spots: Spots, past: Past) -> Markup:
    if not digest.groups:
        return _section("moved", _MOVED, el("p", "Nothing.", class_="nothing"))
    drawn: dict[str, str] = {}  # series → where its picture stands
    groups = [_group(digest, group, spots, past, drawn) for group in digest.groups]
    left = len({movement.series.id for movement in digest.movements} - set(drawn))
    note = el("p", f"{left} more series moved and are not drawn.", class_="quiet") if drawn and left else None
    return _section("moved", _MOVED, *groups, note)


def _section(anchor: str, name: str, *content: Child) -> Markup:
    return el("section", el("h2", name), *content, id=anchor)


def _group(digest: Digest, group: MovementGroup, spots: Spots, past: Past, drawn: dict[str, str]) -> Markup:
    """One cause: why it is taken for it, the series that it moved, their pictures, and what differs."""
    pictures: list[Markup] = []
    for movement in group.movements:
        name = movement.series.id
        if name in drawn or not spots.get(name) or len(drawn) >= MOST_PICTURES:
            continue
        drawn[name] = f"series-{len(drawn)}"
        changes = past.get(name) or [movement]
        picture = picture_of(
            series_title(movement.series),
            movement.series.unit,
            spots[name],
            changes,
            since=digest.since,
            until=digest.until,
        )
        pictures.append(el("div", draw_series(picture), id=drawn[name]))
    why = [el("li", sentence) for sentence in group.why] or [el("li", CAUSES.get(group.cause, group.cause))]
    return el(
        "article",
        el("h3", group_title(group)),
        el("ul", *why),
        sheet_table(movement_sheet(group), _marked(group, drawn)),
        el("div", *pictures, class_="figures") if pictures else None,
        el("details", el("summary", "What differs, and the results"), *map(_details, group.movements)),
        class_="group",
    )


def _marked(group: MovementGroup, drawn: Mapping[str, str]) -> dict[tuple[int, int], Child]:
    """Names that lead to their pictures, and answers with their sign."""
    cells: dict[tuple[int, int], Child] = {}
    for row, movement in enumerate(group.movements):
        if anchor := drawn.get(movement.series.id):
            cells[row, 0] = el("a", series_title(movement.series), href=f"#{anchor}")
        sign = el("span", _SIGNS[movement.answer], aria_hidden="true")
        answer = movement.unconfirmed or movement.answer
        cells[row, 1] = el("span", sign, " ", answer, class_=f"answer {movement.answer.replace(' ', '-')}")
    return cells


def _details(change: Movement) -> Markup:
    word = change.unconfirmed.capitalize() or "Cannot tell"
    doubts = el("p", f"{word}, because {'; '.join(change.because)}.") if change.because else None
    rows = [(item.name, el("code", short(item.before)), el("code", short(item.after))) for item in change.differs]
    name = series_title(change.series)
    differs = (
        table(("what", "last good", "first bad"), rows, name=f"What differs: {name}")
        if rows
        else el("p", "Nothing that is recorded differs.", class_="quiet")
    )
    ways = [
        el("li", word, " ", _link(link), f" of {minute(link.at)}")
        for word, link in (("last good", change.good), ("first bad", change.bad))
        if link
    ]
    ways.append(el("li", "all about it ", el("code", f"assay explain {change.id}")))
    return join((el("h4", name), doubts, differs, el("ul", *ways)))


def _link(link: ResultLink) -> Markup:
    if link.href.startswith(("http://", "https://")):
        return el("a", link.job, href=link.href)
    return el("code", link.command or link.job)


def _listed(digest: Digest, section: DigestSection) -> Markup:
    sheet, cells = section.sheet, dict[tuple[int, int], Child]()
    if section.anchor == "failed":
        last = len(sheet.head)
        cells = {(row, last): _link(job.link) if job.link else DASH for row, job in enumerate(digest.failed)}
        sheet = replace(
            sheet,
            head=(*sheet.head, "result"),
            rows=tuple((*row, "") for row in sheet.rows),
            words=sheet.words | {last},
        )
    elif section.anchor == "alerts":
        cells = {
            (row, 0): el("a", alert.title, href=alert.href)
            for row, alert in enumerate(digest.alerts)
            if alert.href.startswith(("http://", "https://"))
        }
    notes = [el("p", note, class_="quiet") for note in sheet.notes]
    content = [sheet_table(sheet, cells)] if sheet.rows else [el("p", section.nothing, class_="nothing"), *notes]
    return _section(section.anchor, sheet.title, *content)


def _reading() -> Markup:
    return el(
        "section", el("h2", "How to read this"), el("ul", *(el("li", sentence) for sentence in READING)), id="reading"
    )

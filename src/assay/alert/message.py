"""The message about an alert: subject, text, Markdown, HTML and a small picture.

A notice in the outbox keeps what its message is made of (`NoticeDocument`), not the message: it is small, it is the
same at every try, and whichever server sends it can write its own address into the links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from assay.alert.lifecycle import ACTIVE
from assay.alert.picture import HEIGHT, WIDTH, Drawing, drawing_of
from assay.alert.records import AlertMember, AlertRecord, FindingSummary
from assay.alert.wording import moment
from assay.analyse.series.causes import FactorDifference, shown
from assay.documents import from_json, to_json
from assay.plan.job import content_hash
from assay.report.html.chart import Markup, el
from assay.report.markdown import escape
from assay.report.numbers import decimals_for, name_with_unit, show, show_percent
from assay.report.wording import one_line
from assay.store.notices import NewNotice
from assay.store.series import Point

PICTURE_ID = "series@assay"
"""How the HTML calls the picture that comes with it."""
_LONGEST_CHANNEL = 64
_HAPPENED = {
    "opened": "Opened", "reopened": "Reopened", "grown": "More has moved", "woken": "Still there after its snooze",
    "resolved": "Resolved", "expected": "Marked as expected", "test": "A test of this channel",
}  # fmt: skip
_OVER = ("resolved", "expected")
_MOST_ROWS = 20
_MOST_DIFFERENCES = 20
_MORE = re.compile(r"^and \d+ more$")
_CALLS = re.compile(r"([@#!])(?=[\w/])")
_HEAD = ("what", "before", "after", "change", "probability that it is real")
Points = Callable[[str], Sequence[Point]]


@dataclass(frozen=True, slots=True)
class NoticeDocument:
    """Everything that a message is made of."""

    alert: AlertRecord
    """As it was when the notice was due."""
    drawing: Drawing | None = None
    prepared: bool = False
    """The drawing was looked for; there may be none."""
    done: tuple[str, ...] = ()
    """Receivers that have taken the message already, where a channel has several."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One series that moved, in numbers."""

    name: str
    before: str
    after: str
    change: str
    """With its interval."""
    probability: str

    @property
    def sentence(self) -> str:
        """The numbers in one line."""
        return f"{self.before} → {self.after}, {self.change}, real with a probability of {self.probability}"


@dataclass(frozen=True, slots=True)
class Message:
    """What a channel is given to send."""

    key: str
    """The same for every try, and different for every other message: receivers drop repeats by it."""
    alert: AlertRecord
    event: str
    """What happened: opened, reopened, grown, woken, resolved or expected; `test` for a test."""
    at: float
    """When it happened."""
    subject: str
    text: str
    """All of it as plain text."""
    markdown: str
    html: str
    """For mail: refers to the picture by `PICTURE_ID`."""
    lines: tuple[str, ...] = ()
    """The sentences alone, for channels that lay out the rest themselves."""
    rows: tuple[ChangeRow, ...] = ()
    """What moved, in numbers."""
    differs: tuple[FactorDifference, ...] = ()
    """What differs between the last good and the first bad result."""
    links: tuple[tuple[str, str], ...] = ()
    """What to look at → its address."""
    url: str = ""
    """Where to read more; empty when the server's address is not known."""
    drawing: Drawing | None = None
    """What the picture shows; None when there is none."""
    done: tuple[str, ...] = ()
    """Receivers of the channel that have taken it already."""

    @property
    def picture(self) -> bytes | None:
        """The picture as PNG, drawn when it is asked for: few channels take one."""
        from assay.alert.picture import png

        return None if self.drawing is None else png(self.drawing)

    @property
    def picture_svg(self) -> str | None:
        from assay.alert.picture import svg

        return None if self.drawing is None else svg(self.drawing)


def new_notice(alert: AlertRecord, channel: str, not_before: float | None = None) -> NewNotice:
    """The notice for a channel about the newest turn of an alert."""
    # A rule may name any channel, even one whose name is too long for a key.
    short = channel if len(channel) <= _LONGEST_CHANNEL else content_hash(channel)[:32]
    key = f"{alert.id}:{alert.telling.turn}:{short}"
    # What it must not take for news is of no use to its readers, and can be long.
    return NewNotice(key, channel, alert.id, to_json(NoticeDocument(replace(alert, past={}))), not_before)


def read_notice(document: str, key: str) -> NoticeDocument:
    """What a notice keeps."""
    return from_json(NoticeDocument, document, source=key)


def write_notice(notice: NoticeDocument, *, done: tuple[str, ...] | None = None) -> str:
    return to_json(notice if done is None else replace(notice, done=done))


def began_at(alert: AlertRecord) -> float:
    """When an alert last began to stand: at its opening, or when it came back."""
    began, before = alert.opened_at, None
    for line in alert.history:
        if line.state in ACTIVE and before is not None and before not in ACTIVE:
            began = line.at
        before = line.state
    return began


def pictured(alert: AlertRecord) -> AlertMember | None:
    """The member whose series is drawn: the first one that still stands, or else the first one."""
    members = [member for member in alert.members if member.series]
    return next((member for member in members if member.state == "standing"), members[0] if members else None)


def compose(key: str, notice: NoticeDocument, server: str, *, test: bool = False) -> Message:
    alert = notice.alert
    event = "test" if test else _event(alert)
    rows = tuple(_row(member) for member in _moved(alert))
    base = server.rstrip("/")
    links = tuple((name, base + path) for name, path in alert.links.items()) if base else ()
    parts = _Parts(alert, event, rows, _sentences(alert), links)
    return Message(
        key,
        alert,
        event,
        alert.changed_at,
        _subject(alert, event),
        parts.text(),
        parts.markdown(),
        parts.html(picture=notice.drawing is not None),
        lines=parts.sentences,
        rows=rows,
        differs=alert.differs,
        links=links,
        url=next((url for _, url in links), ""),
        drawing=notice.drawing,
        done=notice.done,
    )


def subject_of(alert: AlertRecord) -> str:
    """What a message about an alert is about, in one line."""
    return _subject(alert, _event(alert))


def _event(alert: AlertRecord) -> str:
    return alert.telling.news or "opened"


def _subject(alert: AlertRecord, event: str) -> str:
    if event in (*_OVER, "test"):
        return f"[{event}] {one_line(alert.title)}"
    again = "" if event == "opened" else f", {event}"
    return f"[{alert.severity}{again}] {one_line(alert.title)}"


def _moved(alert: AlertRecord) -> list[AlertMember]:
    """What stands now; when nothing does, what it was about."""
    return [member for member in alert.standing or alert.members if member.moved is not None]


def _sentences(alert: AlertRecord) -> tuple[str, ...]:
    """The sentences of an alert without those that only repeat the numbers in its rows."""
    numbers = {one_line(member.says) for member in _moved(alert)}
    sentences = (one_line(line) for line in alert.sentences)
    return tuple(line for line in sentences if line not in numbers and not (numbers and _MORE.match(line)))


def _row(member: AlertMember) -> ChangeRow:
    """A change in numbers, with no more digits than its doubt allows."""
    moved = member.moved
    assert moved is not None  # noqa: S101  (the caller has checked)
    half = moved.difference_interval.half_width
    tail = f" {member.unit}" if member.unit else ""
    places = decimals_for(moved.before, half)
    return ChangeRow(
        one_line(member.name),
        show(moved.before, places) + tail,
        show(moved.after, places) + tail,
        _change(moved, tail),
        _probability(moved.probability),
    )


def _probability(most: float) -> str:
    """That it is real, at most; never said to be certain."""
    return f"up to {100 * most:.1f} %" if most < 0.9995 else "up to nearly 100 %"


def _change(moved: FindingSummary, tail: str) -> str:
    """The relative change with its interval; in its own unit where there is no share."""
    if moved.change is not None and moved.change_interval is not None:
        low, high = moved.change_interval.low, moved.change_interval.high
        ends = f"[{show_percent(low, signed=True)}, {show_percent(high, signed=True)}]"
        return f"{show_percent(moved.change, signed=True)} {ends}"
    interval = moved.difference_interval
    places = decimals_for(moved.difference, interval.half_width)
    low, high = interval.low, interval.high
    return f"{_signed(moved.difference, places)}{tail} [{_signed(low, places)}, {_signed(high, places)}]"


def _signed(value: float, places: int) -> str:
    return f"{'+' if value > 0 else ''}{show(value, places)}"


class _Parts:
    """The parts of a message, and the three ways to write them."""

    def __init__(
        self,
        alert: AlertRecord,
        event: str,
        rows: Sequence[ChangeRow],
        sentences: tuple[str, ...],
        links: tuple[tuple[str, str], ...],
    ) -> None:
        self.alert, self.event, self.rows, self.sentences, self.links = alert, event, rows, sentences, links
        self.title = one_line(alert.title)
        self.more = len(rows) - _MOST_ROWS

    def when(self) -> str:
        """What happened and when, in one sentence."""
        alert = self.alert
        text = f"{_HAPPENED.get(self.event, self.event.capitalize())}, {moment(alert.changed_at)}"
        if alert.changed_at != alert.opened_at:
            text += f", first opened {moment(alert.opened_at)}"
        who = f", by {one_line(alert.by)}" if alert.by else ""
        why = alert.history[-1].why if alert.history and self.event in _OVER else ""
        of = f", benchmark {one_line(alert.benchmark)}" if alert.benchmark else ""
        return f"{text}{who}{': ' if why else ''}{one_line(why)}. Severity {alert.severity}{of}."

    def differences(self) -> list[tuple[str, str, str]]:
        rows = [
            (one_line(difference.name), one_line(shown(difference.before)), one_line(shown(difference.after)))
            for difference in self.alert.differs
        ]
        return rows[:_MOST_DIFFERENCES]

    def cause(self) -> str:
        """What may explain it, unless a sentence says so already."""
        cause = one_line(self.alert.cause)
        known = cause == "unknown" or any(cause in sentence for sentence in self.sentences)
        return f"What may explain it: {cause}." if cause and not known else ""

    def text(self) -> str:
        blocks = [self.title, self.when()]
        if self.rows:
            blocks.append("\n".join(f"{row.name}\n  {row.sentence}" for row in self.rows[:_MOST_ROWS]))
            blocks += [f"… and {self.more} more."] if self.more > 0 else []
        blocks += self.sentences
        changes = [f"  {name}: {before} → {after}" for name, before, after in self.differences()]
        blocks += ["\n".join(filter(None, (self.cause(), *changes)))] if self.cause() or changes else []
        blocks += ["\n".join(f"{name}: {url}" for name, url in self.links)] if self.links else []
        return "\n\n".join(blocks) + "\n"

    def markdown(self) -> str:
        blocks = [f"**{_md(self.title)}**", _md(self.when())]
        if self.rows:
            cells = [(row.name, row.before, row.after, row.change, row.probability) for row in self.rows[:_MOST_ROWS]]
            blocks.append("\n".join(_md_table(_HEAD, cells)))
            blocks += [f"… and {self.more} more."] if self.more > 0 else []
        blocks += map(_md, self.sentences)
        blocks += [_md(self.cause())] if self.cause() else []
        if self.differences():
            blocks.append("\n".join(_md_table(("differs", "last good", "first bad"), self.differences())))
        blocks += [" · ".join(f"[{_md(name)}](<{url}>)" for name, url in self.links)] if self.links else []
        return "\n\n".join(blocks)

    def html(self, *, picture: bool) -> str:
        cells = [(row.name, row.before, row.after, row.change, row.probability) for row in self.rows[:_MOST_ROWS]]
        content = [
            el("h2", self.title, style="font-size:18px;margin:0 0 8px"),
            el("p", self.when(), style="color:#566070"),
            _html_table(_HEAD, cells) if cells else None,
            el("p", f"… and {self.more} more.") if self.more > 0 else None,
            el("img", src=f"cid:{PICTURE_ID}", width=WIDTH, height=HEIGHT, alt=self.title) if picture else None,
            *(el("p", sentence) for sentence in self.sentences),
            el("p", self.cause()) if self.cause() else None,
            _html_table(("differs", "last good", "first bad"), self.differences()) if self.differences() else None,
            el("p", *(el("span", el("a", name, href=url), " ") for name, url in self.links)) if self.links else None,
        ]
        style = "font:14px/1.5 system-ui,sans-serif;color:#1a1f24;background:#ffffff"
        return f"<!doctype html>\n{el('html', el('body', *content, style=style), lang='en')}"


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    cell = "padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid #dde2e7"
    top = el("tr", *(el("th", name, style=f"{cell};color:#566070;font-weight:500") for name in head))
    body = [el("tr", *(el("td", text, style=cell) for text in row)) for row in rows]
    return el("table", top, *body, style="border-collapse:collapse;margin:8px 0")


def _md_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    written = [f"| {' | '.join(_md(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *written]


def _md(text: str) -> str:
    """Text that Markdown shows as it is; it mentions no user and links no issue."""
    return _CALLS.sub("\\1\N{ZERO WIDTH SPACE}", escape(text))


def prepared(notice: NoticeDocument, points: Points) -> NoticeDocument:
    """What a notice keeps, with the drawing of the series that it is about."""
    if notice.prepared:
        return notice
    member = pictured(notice.alert)
    drawing = None if member is None else _drawing(member, points(member.series))
    return replace(notice, drawing=drawing, prepared=True)


def _drawing(member: AlertMember, points: Sequence[Point]) -> Drawing | None:
    # What does not count for the analysis is not drawn as if it did.
    values = [point.value if point.counts else None for point in points]
    errors = [point.standard_error if point.counts else None for point in points]
    days = [datetime.fromtimestamp(point.at, UTC).strftime("%Y-%m-%d") for point in points]
    moved = member.moved
    since = moved.since if moved is not None else None
    change_at = next((index for index, point in enumerate(points) if since is not None and point.at >= since), None)
    metric = name_with_unit(member.metric, member.unit)
    place = member.name.removesuffix(member.metric)
    title = one_line(f"{place}{metric}" if place != member.name else f"{metric}, {place}")
    return drawing_of(
        title,
        values,
        errors,
        days,
        change_at=change_at,
        before=moved.before if moved else None,
        after=moved.after if moved else None,
    )

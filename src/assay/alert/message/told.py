"""What people are told about an alert: subject, text, Markdown, HTML and a small picture.

A notice in the outbox keeps what its message is made of (`Told`), not the message: it is small, it is the same at
every try, and whichever server sends it can write its own address into the links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.alert.life import ACTIVE
from assay.alert.picture.drawing import Drawing
from assay.alert.records import AlertRecord, Member
from assay.analyse.series.triage import Difference
from assay.documents import from_json, to_json
from assay.plan.digest import content_hash
from assay.store.notices import NewNotice

PICTURE_ID = "series@assay"
"""How the HTML calls the picture that comes with it."""
_LONGEST_CHANNEL = 64


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that a message is made of."""

    alert: AlertRecord
    """As it was when people were to be told."""
    drawing: Drawing | None = None
    prepared: bool = False
    """The drawing was looked for; there may be none."""
    done: tuple[str, ...] = ()
    """Receivers that have taken the message already, where a channel has several."""


@dataclass(frozen=True, slots=True)
class Row:
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
    rows: tuple[Row, ...] = ()
    """What moved, in numbers."""
    differs: tuple[Difference, ...] = ()
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
        from assay.alert.picture.layout import png

        return None if self.drawing is None else png(self.drawing)

    @property
    def picture_svg(self) -> str | None:
        from assay.alert.picture.layout import svg

        return None if self.drawing is None else svg(self.drawing)


def notice(alert: AlertRecord, channel: str, not_before: float | None = None) -> NewNotice:
    """The notice for a channel about the newest turn of an alert."""
    # A rule may name any channel, even one whose name is too long for a key.
    short = channel if len(channel) <= _LONGEST_CHANNEL else content_hash(channel)[:32]
    key = f"{alert.id}:{alert.telling.turn}:{short}"
    # What it must not take for news is of no use to its readers, and can be long.
    return NewNotice(key, channel, alert.id, to_json(Told(replace(alert, past={}))), not_before)


def read_told(document: str, key: str) -> Told:
    """What a notice keeps.

    Raises:
        UsageError: if another version of assay wrote it in a way that this one does not understand.
    """
    return from_json(Told, document, source=key)


def write_told(told: Told, *, done: tuple[str, ...] | None = None) -> str:
    """The document of a notice."""
    return to_json(told if done is None else replace(told, done=done))


def began_at(alert: AlertRecord) -> float:
    """When an alert last began to stand: at its opening, or when it came back."""
    began, before = alert.opened_at, None
    for line in alert.history:
        if line.state in ACTIVE and before is not None and before not in ACTIVE:
            began = line.at
        before = line.state
    return began


def pictured(alert: AlertRecord) -> Member | None:
    """The member whose series is drawn: the first one that still stands, or else the first one."""
    known = [one for one in alert.members if one.series]
    return next((one for one in known if one.state == "standing"), known[0] if known else None)

"""A digest as Markdown, for a chat, a wiki page or a mail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.alert.digest.build import short, told_in_title
from assay.alert.digest.records import Digest, Movement, MovementGroup, ResultLink
from assay.alert.digest.wording import (
    CAUSES,
    HANDLED,
    MOVED_HEAD,
    OPEN_HEAD,
    OTHER_ALERTS,
    READING,
    failed_row,
    group_title,
    minute,
    moved_row,
    noisy_row,
    open_row,
    series_title,
    silent_row,
    summary,
    title,
    told_row,
)
from assay.report.markdown import escape
from assay.report.numbers import NOTHING
from assay.report.wording import one_line

# Of what differs in a change; the rest is counted.
_MOST_DIFFERENCES = 8


def digest_markdown(digest: Digest) -> str:
    blocks = (
        [f"# {title(digest)}"],
        [escape(summary(digest))],
        [f"{minute(digest.since)} to {minute(digest.until)} UTC, from {_code(digest.source)}."],
        ["## What moved"],
        *([block for group in digest.groups for block in _group(group)] or [["Nothing."]]),
        *_tables(digest),
        ["## How to read this", "", *(f"- {one}" for one in READING)],
        [f"Made by assay{f' {escape(digest.assay_version)}' if digest.assay_version else ''}."],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _tables(digest: Digest) -> list[list[str]]:
    """Everything but the changes; what is empty says so."""
    handled = [(*told_row(one), one.why or NOTHING) for one in digest.handled]
    handled += [
        (series_title(one.series), "expected", NOTHING, minute(one.found_at), f"finding {one.id}")
        for one in digest.expected
    ]
    silent = [silent_row(one, digest.until) for one in digest.silent]
    return [
        *_section("What failed", ("job", "times", "when", "why"), map(failed_row, digest.failed), "No job failed."),
        *_section(
            "What is noisy",
            ("series", "spread", "smallest visible change", "why"),
            map(noisy_row, digest.noisy),
            "No series hides a change of 5 % or more.",
        ),
        *_section(HANDLED, ("what", "state", "by", "when", "why"), handled, "Nothing."),
        *_section(
            "What is silent",
            ("job", "metrics", "last result", "silent for", "usual pause"),
            silent,
            "Every job that used to give results gave some.",
        ),
        [f"{digest.long_silent} more series got their last result long before."] if digest.long_silent else [],
        *(_section(OTHER_ALERTS, OPEN_HEAD, map(open_row, digest.alerts), "") if digest.alerts else ()),
    ]


def _section(name: str, head: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> list[list[str]]:
    found = list(rows)
    return [[f"## {name}"], _table(head, found) if found else [nothing]]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [tuple(head), tuple("---" for _ in head), *(tuple(map(escape, row)) for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _group(group: MovementGroup) -> list[list[str]]:
    """One cause: what differs, which series it moved, and where to look."""
    why = [escape(one) for one in group.why] or [escape(CAUSES.get(group.cause, group.cause))]
    return [
        [f"### {escape(group_title(group))}"],
        ["; ".join(why) + "."],
        _table(MOVED_HEAD, map(moved_row, group.movements)),
        [f"- {line}" for one in group.movements for line in _details(one, group)],
    ]


def _details(one: Movement, group: MovementGroup) -> list[str]:
    named = f"**{escape(series_title(one.series))}**"
    word = one.unconfirmed or "cannot tell"
    doubts = [f"{named}: {word}, because {escape('; '.join(one.because))}"] if one.because else []
    named_here = () if told_in_title(one, group) else one.differs
    shown = [
        f"{escape(each.name)} {_code(short(each.before))} → {_code(short(each.after))}"
        for each in named_here[:_MOST_DIFFERENCES]
    ]
    more = len(named_here) - _MOST_DIFFERENCES
    shown += [f"{more} more"] if more > 0 else []
    differs = [f"{named}: differs: {', '.join(shown)}"] if shown else []
    links = [f"{word} {_link(link)}" for word, link in (("last good", one.good), ("first bad", one.bad)) if link]
    ways = f"{named}: {', '.join([*links, _code(f'assay explain {one.id}')])}"
    return [*doubts, *differs, ways]


def _link(link: ResultLink) -> str:
    if link.href.startswith(("http://", "https://")):
        return f"[{escape(link.job)}]({link.href.replace(')', '%29').replace(' ', '%20')})"
    return _code(link.command or link.job)


def _code(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(39))}`"

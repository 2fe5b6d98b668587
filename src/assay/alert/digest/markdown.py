"""A digest as Markdown, for a chat, a wiki page or a mail."""

from __future__ import annotations

from assay.alert.digest.build import short, told_in_title
from assay.alert.digest.records import Digest, Movement, MovementGroup, ResultLink
from assay.alert.digest.wording import (
    CAUSES,
    READING,
    DigestSection,
    group_title,
    minute,
    movement_sheet,
    sections,
    series_title,
    summary,
    title,
)
from assay.report.markdown import escape, sheet_markdown
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
        *(block for section in sections(digest) for block in _section(section)),
        ["## How to read this", "", *(f"- {one}" for one in READING)],
        [f"Made by assay{f' {escape(digest.assay_version)}' if digest.assay_version else ''}."],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(section: DigestSection) -> list[list[str]]:
    sheet = section.sheet
    content = [sheet_markdown(sheet)] if sheet.rows else [[section.nothing], *([note] for note in sheet.notes)]
    return [[f"## {sheet.title}"], *content]


def _group(group: MovementGroup) -> list[list[str]]:
    """One cause: what differs, which series it moved, and where to look."""
    why = [escape(one) for one in group.why] or [escape(CAUSES.get(group.cause, group.cause))]
    return [
        [f"### {escape(group_title(group))}"],
        ["; ".join(why) + "."],
        sheet_markdown(movement_sheet(group)),
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

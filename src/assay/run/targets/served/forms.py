"""What the answers of one load have in common, learned from one that was read event by event."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from assay.run.apis.answers import REASONING, TOOL, Draft, decode_string

# What may differ in the opening of an event without a change of its meaning: an id, and a time.
_VOLATILE = re.compile(rb'"id"\s*:\s*"(?P<id>[\w.:-]+)"|"created"\s*:\s*(?P<time>[1-9][0-9]{0,17})(?=[,}])')
_TEXT_MARK = re.compile(rb'"(?:content|text)"\s*:\s*"')
_USAGE_MARK = re.compile(rb'(?<=[,{ ])"usage"\s*:\s*\{')
_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_LEAST_RUN = 3
_MOST_EDGE = 6  # events before the run, and after it

Key = tuple[bytes | bool, ...]


class Edge(NamedTuple):
    """What the events before a run, or after it, say."""

    spoken: tuple[int, ...]  # which of them carry text
    finish: str | None
    finish_at: int  # which of them gave the finish reason and had no text; -1 for none
    done: bool


class Form(NamedTuple):
    """What answers have in common: some events, a run of events that differ in one text alone, and some more."""

    before: int  # events before the run
    after: int
    opening: re.Pattern[bytes]  # of every event: as far as its id and its time
    middle: bytes  # of an event of the run: from the opening to the text
    suffix: bytes  # from the text to the end of its line
    text_mark: bytes  # what stands before a text
    usage_mark: bytes
    heads: dict[Key, Edge]
    tails: dict[Key, Edge]

    def same(self, other: Form) -> bool:
        """Whether two forms differ in their edges alone."""
        return self[:7] == other[:7]


def is_plain(body: bytes, draft: Draft) -> bool:
    """Whether an answer can teach a form: one that ended well, said text alone and has its events line by line."""
    if not draft.streamed or draft.fault is not None or draft.usage is None or draft.blanks or elsewhere(draft):
        return False
    if b"\r" in body or not body.endswith(b"\n\n"):
        return False
    lines = body.split(b"\n")
    return not any(lines[1::2]) and all(lines[:-1:2])


def form_of(body: bytes, draft: Draft) -> Form | None:
    """What an answer may have in common with others: the longest run of like events about its middle."""
    lines = body.split(b"\n")[:-1:2]
    line_ends = list(accumulate([len(line) + 2 for line in lines], initial=-2))[1:]
    spoken = set(draft.ends)
    if len(draft.ends) < _LEAST_RUN or not spoken.issubset(line_ends):
        return None
    middle = len(draft.ends) // 2
    at = line_ends.index(draft.ends[middle])
    around = _around(lines[at], draft.parts[middle])
    usage_mark = _last(_USAGE_MARK, body)
    if around is None or usage_mark is None:
        return None
    prefix, text_mark, suffix = around
    fits = [
        end in spoken and line.startswith(prefix) and line.endswith(suffix)
        for line, end in zip(lines, line_ends, strict=True)
    ]
    before, after = at, at
    while before > 0 and fits[before - 1]:
        before -= 1
    while after < len(lines) and fits[after]:
        after += 1
    if after - before < _LEAST_RUN or max(before, len(lines) - after) > _MOST_EDGE:
        return None
    opening, size = _opening_of(prefix)
    return Form(before, len(lines) - after, opening, prefix[size:], suffix, text_mark, usage_mark, {}, {})


def _around(line: bytes, text: str) -> tuple[bytes, bytes, bytes] | None:
    """What stands before the one text of an event, the mark that ends it, and what stands after the text."""
    marks = list(_TEXT_MARK.finditer(line))
    if len(marks) != 1 or not line.startswith(b"data: "):
        return None
    begin = marks[0].end()
    string = _STRING.match(line, begin)
    stop = begin if string is None else string.end()
    try:
        found = decode_string(line[begin:stop])
    except ValueError:
        return None
    return (line[:begin], marks[0].group(), line[stop:]) if found == text else None


def _last(pattern: re.Pattern[bytes], body: bytes) -> bytes | None:
    found = [match.group() for match in pattern.finditer(body)]
    return found[-1] if found else None


def _opening_of(prefix: bytes) -> tuple[re.Pattern[bytes], int]:
    """A pattern for the begin of events, as far as their id and time, and how long that is here."""
    written, at = b"", 0
    for match in _VOLATILE.finditer(prefix):
        name = "id" if match["id"] is not None else "time"
        allowed = rb"[\w.:-]+" if name == "id" else rb"[1-9][0-9]{0,17}"
        written += re.escape(prefix[at : match.start(name)]) + allowed
        at = match.end(name)
    if not at:
        return re.compile(re.escape(b"data: ")), len(b"data: ")
    return re.compile(written), at


def edge_of(draft: Draft, part: bytes, shift: int) -> Edge:
    """What some events say, by their number; their positions in the draft are later by a shift."""
    ends = list(accumulate([len(line) + 2 for line in part.split(b"\n")[:-1:2]], initial=shift - 2))[1:]
    spoken = tuple(number for number, end in enumerate(ends) if end in draft.ends)
    finish_at = ends.index(draft.finish_end) if draft.finish_end in ends else -1
    return Edge(spoken, draft.finish, finish_at, draft.done)


def says_text_alone(draft: Draft) -> bool:
    """Whether events carry nothing but text."""
    nothing = draft.fault is None and draft.finish is None and draft.usage is None and not draft.done
    return nothing and not draft.blanks and not elsewhere(draft)


def elsewhere(draft: Draft) -> bool:
    """Whether anything was said beside the text."""
    return bool(draft.said[REASONING] or draft.said[TOOL])

"""Streams of one load mostly differ in their texts, an id, a time and their counts: read without parsing their events.

What they have in common is learned from one that was read event by event. Another one is rebuilt from that template and
its own texts; where that gives its very bytes, everything about it is known, and no event of it is parsed. Where it
does not, the answer is read event by event. Answers known in outline go into columns a block at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from assay.run.apis.answers import REASONING, TOOL, AnswerDraft, Usage, decode_string
from assay.run.apis.readers import Take, read_part, usage_of

# What may differ in the opening of an event without a change of its meaning: an id, and a time.
_VOLATILE = re.compile(rb'"id"\s*:\s*"(?P<id>[\w.:-]+)"|"created"\s*:\s*(?P<time>[1-9][0-9]{0,17})(?=[,}])')
_TEXT_MARK = re.compile(rb'"(?:content|text)"\s*:\s*"')
_USAGE_MARK = re.compile(rb'(?<=[,{ ])"usage"\s*:\s*\{')
_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_LEAST_RUN = 3
_MOST_EDGE = 6  # events before the run, and after it

Key = tuple[bytes | bool, ...]
# Insides of JSON strings, one on a line; no line break can stand inside one.
_STRINGS = re.compile(rb'(?:[^"\\\x00-\x09\x0b-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_MOST_FORMS = 4
_MOST_USAGES = 4096
# Learning costs more than reading, and a failed try costs too: both are bounded by what they have brought so far.
_LESSONS, _HITS_PER_LESSON = 16, 8
_TRIES, _TRIES_PER_HIT = 64, 4


class Edge(NamedTuple):
    """What the events before a run, or after it, say."""

    spoken: tuple[int, ...]  # which of them carry text
    finish: str | None
    finish_at: int  # which of them gave the finish reason and had no text; -1 for none
    done: bool


class StreamTemplate(NamedTuple):
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

    def same(self, other: StreamTemplate) -> bool:
        """Whether two forms differ in their edges alone."""
        return self[:7] == other[:7]


def is_plain(body: bytes, draft: AnswerDraft) -> bool:
    """Whether an answer can teach a form: one that ended well, said text alone and has its events line by line."""
    if not draft.streamed or draft.fault is not None or draft.usage is None or draft.blanks or elsewhere(draft):
        return False
    if b"\r" in body or not body.endswith(b"\n\n"):
        return False
    lines = body.split(b"\n")
    return not any(lines[1::2]) and all(lines[:-1:2])


def form_of(body: bytes, draft: AnswerDraft) -> StreamTemplate | None:
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
    return StreamTemplate(before, len(lines) - after, opening, prefix[size:], suffix, text_mark, usage_mark, {}, {})


def _around(line: bytes, text: str) -> tuple[bytes, bytes, bytes] | None:
    """What stands before the one text of an event, the mark that ends it, and what stands after the text."""
    marks = list(_TEXT_MARK.finditer(line))
    if len(marks) != 1 or not line.startswith(b"data: "):
        return None
    begin = marks[0].end()
    string = _STRING.match(line, begin)
    stop = begin if string is None else string.end()
    try:
        decoded = decode_string(line[begin:stop])
    except ValueError:
        return None
    return (line[:begin], marks[0].group(), line[stop:]) if decoded == text else None


def _last(pattern: re.Pattern[bytes], body: bytes) -> bytes | None:
    matches = [match.group() for match in pattern.finditer(body)]
    return matches[-1] if matches else None


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


def edge_of(draft: AnswerDraft, part: bytes, shift: int) -> Edge:
    """What some events say, by their number; their positions in the draft are later by a shift."""
    ends = list(accumulate([len(line) + 2 for line in part.split(b"\n")[:-1:2]], initial=shift - 2))[1:]
    spoken = tuple(number for number, end in enumerate(ends) if end in draft.ends)
    finish_at = ends.index(draft.finish_end) if draft.finish_end in ends else -1
    return Edge(spoken, draft.finish, finish_at, draft.done)


def says_text_alone(draft: AnswerDraft) -> bool:
    """Whether events carry nothing but text."""
    nothing = draft.fault is None and draft.finish is None and draft.usage is None and not draft.done
    return nothing and not draft.blanks and not elsewhere(draft)


def elsewhere(draft: AnswerDraft) -> bool:
    return bool(draft.said[REASONING] or draft.said[TOOL])


class AnswerOutline(NamedTuple):
    """An answer without its texts; it ended well, and said text alone. Positions are inside its body."""

    lead: Sequence[int]  # ends of events with text before the run
    start: int  # where the run begins
    sizes: Sequence[int]  # for each event of the run: bytes of its text
    around: int  # bytes of such an event beside its text
    trail: Sequence[int]  # ends of events with text after the run
    finish: str | None
    finish_end: int  # as in a draft
    done: bool
    usage: Usage

    @property
    def events(self) -> int:
        return len(self.lead) + len(self.sizes) + len(self.trail)

    def draft(self) -> AnswerDraft:
        """The draft of the answer, without its texts and its id."""
        draft = AnswerDraft(streamed=True)
        # Two line breaks follow an event, and are not part of it.
        run = list(accumulate([size + self.around for size in self.sizes], initial=self.start - 2))
        draft.ends = [*self.lead, *run[1:], *self.trail]
        draft.finish, draft.finish_end, draft.done, draft.usage = self.finish, self.finish_end, self.done, self.usage
        return draft


class FastReader:
    """Learns the forms of the answers of one load, and reads by them what it can."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._forms: list[StreamTemplate] = []
        self._usages: dict[bytes, Usage | None] = {}
        self._tries = self._hits = self._lessons = 0

    def read(self, body: bytes) -> AnswerOutline | None:
        """What an answer says beside its texts; None where it has to be read event by event."""
        if not self._forms or self._tries > _TRIES + _TRIES_PER_HIT * self._hits:
            return None
        self._tries += 1
        lines = body.split(b"\n")
        for number, form in enumerate(self._forms):
            outline = self._by_form(form, body, lines)
            if outline is not None:
                self._hits += 1
                if number:
                    self._forms.insert(0, self._forms.pop(number))
                return outline
        return None

    def learn(self, body: bytes, draft: AnswerDraft) -> None:
        """Learn from an answer that was read event by event."""
        if self._lessons >= _LESSONS + self._hits // _HITS_PER_LESSON or not is_plain(body, draft):
            return
        self._lessons += 1
        form = form_of(body, draft)
        if form is None:
            return
        existing = next((template for template in self._forms if template.same(form)), None)
        if existing is None and len(self._forms) == _MOST_FORMS:
            return
        form = existing or form
        lines = body.split(b"\n")
        if not self._learn_edges(form, body, lines):
            return
        outline = self._by_form(form, body, lines)
        if outline is None or not _agree(outline.draft(), draft):  # then nothing that was learned of it is right
            self._forms = [template for template in self._forms if template is not form]
        elif existing is None:
            self._forms.append(form)

    def _learn_edges(self, form: StreamTemplate, body: bytes, lines: Sequence[bytes]) -> bool:
        """Read the events around the run by themselves, and keep what they say."""
        matched = form.opening.match(lines[2 * form.before])
        if matched is None:
            return False
        opening = matched.group()
        start, stop = _bounds(form, body, lines)
        event = b"%b%bx%b\n\n" % (opening, form.middle, form.suffix)
        head, tail = body[:start], body[stop:]
        # The last events are read after one of the run, as they were: some mean another thing at the very begin.
        run, first, last = (read_part(part, self._take) for part in (event, head, event + tail))
        usage, before, after = self._usage_in(form, tail)
        if not says_text_alone(run) or len(run.ends) != 1 or not says_text_alone(first):
            return False
        if usage is None or last.usage != usage or last.fault is not None or last.blanks or elsewhere(last):
            return False
        form.heads[_key(head, form.text_mark, opening)[0]] = edge_of(first, head, 0)
        form.tails[(*_key(before, form.text_mark, opening)[0], after)] = edge_of(last, tail, len(event))
        return True

    def _by_form(self, form: StreamTemplate, body: bytes, lines: list[bytes]) -> AnswerOutline | None:
        begin, end = 2 * form.before, len(lines) - 1 - 2 * form.after
        matched = form.opening.match(lines[begin]) if end > begin else None
        if matched is None:
            return None
        opening = matched.group()
        prefix = opening + form.middle
        low, high = len(prefix), -len(form.suffix)
        texts = [line[low:high] for line in lines[begin:end:2]]
        start, stop = _bounds(form, body, lines)
        # However the texts were found: if they and what is common give these bytes, they are what stands there.
        closing = form.suffix + b"\n\n"
        run = (closing + prefix).join(texts)
        if b"" in texts or len(prefix) + len(run) + len(closing) != stop - start:
            return None
        if not (
            body.startswith(prefix, start) and body.startswith(run, start + low) and body.endswith(closing, 0, stop)
        ):
            return None
        head_key, head_text = _key(body[:start], form.text_mark, opening)
        usage, before, after = self._usage_in(form, body[stop:])
        tail_key, tail_text = _key(before, form.text_mark, opening)
        head, tail = form.heads.get(head_key), form.tails.get((*tail_key, after))
        if head is None or tail is None or usage is None or not _are_strings([head_text, *texts, tail_text]):
            return None
        return AnswerOutline(
            _ends(lines, head.spoken, 0, 0),
            start,
            list(map(len, texts)),
            low - high + 2,
            _ends(lines, tail.spoken, end, stop),
            tail.finish,
            -1 if tail.finish_at < 0 else _ends(lines, (tail.finish_at,), end, stop)[0],
            tail.done,
            usage,
        )

    def _usage_in(self, form: StreamTemplate, tail: bytes) -> tuple[Usage | None, bytes, bytes]:
        """The counts that end an event, what stands before them, and what after their line; None where they do not."""
        before, mark, rest = tail.rpartition(form.usage_mark)
        if not mark:
            return None, b"", b""
        given, _, after = rest.partition(b"\n")
        if given not in self._usages:
            if len(self._usages) >= _MOST_USAGES:
                self._usages.clear()
            self._usages[given] = _usage_of_line(given)
        return self._usages[given], before, after


def _usage_of_line(given: bytes) -> Usage | None:
    """The counts of a line that ends with them and the event's closing brace; None for any other."""
    try:
        event = from_json(b'{"usage":{' + given)
        return usage_of(event["usage"]) if len(event) == 1 else None
    except (ValueError, AttributeError, TypeError):
        return None


def _key(part: bytes, text_mark: bytes, opening: bytes) -> tuple[Key, bytes]:
    """What is left of some events without the id, the time and the last text in them, and that text.

    Parts of one key have the same meaning: each piece between openings is the same, and so is whether there is a text.
    """
    before, mark, rest = part.rpartition(text_mark)
    if not mark:
        return tuple(part.split(opening)), b""
    text, _, rest = rest.partition(b'"')
    return (*before.split(opening), bool(text), *rest.split(opening)), text


def _are_strings(texts: list[bytes]) -> bool:
    letters = b"".join(texts)
    if letters.isascii() and b'"' not in letters and b"\\" not in letters and letters.decode().isprintable():
        return True
    joined = b"\n".join(texts)
    if _STRINGS.fullmatch(joined) is None or joined.count(b"\n") != len(texts) - 1:
        return False
    try:
        return joined.isascii() or bool(joined.decode())
    except UnicodeDecodeError:
        return False


def _bounds(form: StreamTemplate, body: bytes, lines: Sequence[bytes]) -> tuple[int, int]:
    before, after = 2 * form.before, 2 * form.after
    start = sum(map(len, lines[:before])) + before
    return start, len(body) - sum(map(len, lines[len(lines) - 1 - after :])) - after


def _ends(lines: Sequence[bytes], which: Sequence[int], begin: int, at: int) -> Sequence[int]:
    """Where some events end, counted from the line `begin`, which starts at a position."""
    return [at + sum(map(len, lines[begin : begin + 2 * number + 1])) + 2 * number for number in which] if which else ()


def _agree(draft: AnswerDraft, other: AnswerDraft) -> bool:
    """Whether two drafts say the same, their texts and ids apart."""
    names = ("ends", "finish", "finish_end", "done", "usage", "blanks", "fault", "streamed")
    return all(getattr(draft, name) == getattr(other, name) for name in names)


class AnswerOutlines:
    """Outlines of one block, each with its row and where its body begins."""

    def __init__(self) -> None:
        self.finishes: list[int] = []
        self._rows: list[int] = []
        self._starts: list[int] = []
        self._found: list[AnswerOutline] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int, start: int, outline: AnswerOutline, finish: int) -> None:
        """Keep one that is exact, with the code of its finish reason."""
        self.finishes.append(finish)
        self._rows.append(row)
        self._starts.append(start)
        self._found.append(outline)

    def rows(self) -> NDArray[np.int64]:
        return np.asarray(self._rows, dtype=np.int64)

    def events(self) -> list[int]:
        return [outline.events for outline in self._found]

    def usage(self, name: str) -> NDArray[np.int64]:
        """One of the server's counts of each; -1 where it gave none."""
        given = [getattr(outline.usage, name) for outline in self._found]
        return np.array([-1 if count is None else count for count in given], dtype=np.int64)

    def text_ends(self) -> NDArray[np.int64]:
        """Where the events with text end in the content."""
        outlines, starts = self._found, np.asarray(self._starts, dtype=np.int64)
        counts = np.array([len(outline.sizes) for outline in outlines], dtype=np.int64)
        reached = np.fromiter(chain.from_iterable(outline.sizes for outline in outlines), np.int64, int(counts.sum()))
        reached += np.repeat(np.array([outline.around for outline in outlines], dtype=np.int64), counts)
        np.cumsum(reached, out=reached)
        before = np.concatenate([np.zeros(1, dtype=np.int64), reached[np.cumsum(counts)[:-1] - 1]])
        # Two line breaks follow an event, and are not part of it.
        reached += np.repeat(
            starts + np.array([outline.start for outline in outlines], dtype=np.int64) - 2 - before, counts
        )
        edges = [
            begin + end
            for begin, outline in zip(self._starts, outlines, strict=True)
            if outline.lead or outline.trail
            for end in (*outline.lead, *outline.trail)
        ]
        return np.concatenate([reached, np.array(edges, dtype=np.int64)])

    def finish_ends(self) -> NDArray[np.int64]:
        """Where the events end that gave the finish reason and one token without text."""
        ends = [
            begin + outline.finish_end
            for begin, outline in zip(self._starts, self._found, strict=True)
            if tokens_of(outline) != outline.events
        ]
        return np.array(ends, dtype=np.int64)


def tokens_of(outline: AnswerOutline) -> int:
    """Tokens that were sent: the server may have kept some to itself. -1 where it gave no count."""
    usage = outline.usage
    return -1 if usage.output is None else usage.output - min(usage.reasoning or 0, usage.output)


def is_exact(outline: AnswerOutline) -> bool:
    """Whether each event with text carried one token; the last may have come with the finish reason."""
    missing = tokens_of(outline) - outline.events
    return missing == 0 or (missing == 1 and outline.finish_end >= 0)

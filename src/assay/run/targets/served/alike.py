"""Answers that are alike: most of one load differ in their texts, an id, a time and their counts, and in nothing else.

What they have in common is learned from one that was read event by event. Another one is put together anew from what
is common and from its own texts; where that gives its very bytes, all that is to be known of it is known, and no event
of it is parsed. Where it does not, the answer is read event by event.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from pydantic_core import from_json

from assay.run.apis.answers import Draft, Usage
from assay.run.apis.readers import Take, read_part, usage_of
from assay.run.targets.served.forms import Form, Key, edge_of, elsewhere, form_of, is_plain, says_text_alone

# Insides of JSON strings, one on a line; no line break can stand inside one.
_STRINGS = re.compile(rb'(?:[^"\\\x00-\x09\x0b-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_MOST_FORMS = 4
_MOST_USAGES = 4096
# Learning costs more than reading, and trying in vain costs too: both are bounded by what they have brought so far.
_LESSONS, _HITS_PER_LESSON = 16, 8
_TRIES, _TRIES_PER_HIT = 64, 4


class Outline(NamedTuple):
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
        """How many events carry text."""
        return len(self.lead) + len(self.sizes) + len(self.trail)

    def draft(self) -> Draft:
        """The draft of the answer, without its texts and its id."""
        draft = Draft(streamed=True)
        # Two line breaks follow an event, and are not part of it.
        run = list(accumulate([size + self.around for size in self.sizes], initial=self.start - 2))
        draft.ends = [*self.lead, *run[1:], *self.trail]
        draft.finish, draft.finish_end, draft.done, draft.usage = self.finish, self.finish_end, self.done, self.usage
        return draft


class Alike:
    """Learns the forms of the answers of one load, and reads by them what it can."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._forms: list[Form] = []
        self._usages: dict[bytes, Usage | None] = {}
        self._tries = self._hits = self._lessons = 0

    def read(self, body: bytes) -> Outline | None:
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

    def learn(self, body: bytes, draft: Draft) -> None:
        """Learn from an answer that was read event by event."""
        if self._lessons >= _LESSONS + self._hits // _HITS_PER_LESSON or not is_plain(body, draft):
            return
        self._lessons += 1
        form = form_of(body, draft)
        if form is None:
            return
        known = next((one for one in self._forms if one.same(form)), None)
        if known is None and len(self._forms) == _MOST_FORMS:
            return
        form = known or form
        lines = body.split(b"\n")
        if not self._learn_edges(form, body, lines):
            return
        outline = self._by_form(form, body, lines)
        if outline is None or not _agree(outline.draft(), draft):  # then nothing that was learned of it is right
            self._forms = [one for one in self._forms if one is not form]
        elif known is None:
            self._forms.append(form)

    def _learn_edges(self, form: Form, body: bytes, lines: Sequence[bytes]) -> bool:
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

    def _by_form(self, form: Form, body: bytes, lines: list[bytes]) -> Outline | None:
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
        return Outline(
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

    def _usage_in(self, form: Form, tail: bytes) -> tuple[Usage | None, bytes, bytes]:
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


def _bounds(form: Form, body: bytes, lines: Sequence[bytes]) -> tuple[int, int]:
    """Where the run begins and ends."""
    before, after = 2 * form.before, 2 * form.after
    start = sum(map(len, lines[:before])) + before
    return start, len(body) - sum(map(len, lines[len(lines) - 1 - after :])) - after


def _ends(lines: Sequence[bytes], which: Sequence[int], begin: int, at: int) -> Sequence[int]:
    """Where some events end, counted from the line `begin`, which starts at a position."""
    return [at + sum(map(len, lines[begin : begin + 2 * one + 1])) + 2 * one for one in which] if which else ()


def _agree(one: Draft, other: Draft) -> bool:
    """Whether two drafts say the same, their texts and ids apart."""
    names = ("ends", "finish", "finish_end", "done", "usage", "blanks", "fault", "streamed")
    return all(getattr(one, name) == getattr(other, name) for name in names)

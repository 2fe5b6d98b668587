"""Server-sent events in a whole body: frames one by one, and fast runs of events that differ in one string alone."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from pydantic_core import from_json

from assay.run.targets.served.answers import decode_string

_LONE_RETURN = re.compile(rb"\r(?!\n)")
_STRING_END = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_RETURN = 0x0D
_SPACE = 0x20
# A run is looked for in a part of the body at a time, so that reading stays linear however often the shape changes.
_PART = 64 * 1024
_MARK = 16


class Frame(NamedTuple):
    """One event, and where it lies in the body."""

    data: bytes
    name: bytes
    start: int
    end: int  # after the last byte of its data
    next: int  # where the next frame begins
    plain: bool  # one data line and nothing else
    stray: bytes  # a line that is no field of an event


class Shape(NamedTuple):
    """What surrounds the one string in which events of a run differ."""

    prefix: bytes  # from the start of its line to the string
    suffix: bytes  # from the string to the start of the next event
    rest: int  # bytes of the suffix that belong to the data


class Run(NamedTuple):
    """Events of one shape in a row."""

    texts: list[str]
    ends: list[int]
    next: int


def normalised(body: bytes) -> bytes:
    """The body with line ends that can be searched for; positions stay the same."""
    if b"\r" in body:
        body = _LONE_RETURN.sub(b"\n", body)
    return body


def frame_at(body: bytes, at: int) -> Frame | None:
    """The event that begins at a position or after it; None where nothing follows."""
    if body.startswith(b"data: ", at):  # what nearly all events look like: one line and a blank one
        stop = body.find(b"\n\n", at)
        if stop > 0 and body.find(b"\n", at, stop) < 0 and body[stop - 1] != _RETURN:
            return Frame(body[at + 6 : stop], b"", at, stop, stop + 2, True, b"")
    return _any_frame_at(body, at)


def _any_frame_at(body: bytes, at: int) -> Frame | None:
    """The same for events of any form."""
    data: list[bytes] = []
    name = stray = b""
    size = len(body)
    pos = start = end = at + 3 if at == 0 and body.startswith(_BOM) else at
    lines = 0
    while pos < size:
        stop = body.find(b"\n", pos)
        after = stop + 1
        if stop < 0:
            stop = after = size
        if stop > pos and body[stop - 1] == _RETURN:
            stop -= 1
        if stop == pos:
            if data or name or stray:
                return Frame(_whole(data), name, start, end, after, lines == 1 and len(data) == 1, stray)
            start = end = pos = after  # blank lines and comments before an event are not part of it
            continue
        if body.startswith(b"data:", pos):
            first = pos + 5
            if first < stop and body[first] == _SPACE:
                first += 1
            data.append(body[first:stop])
            end = stop
        elif body.startswith(b"event:", pos):
            name = body[pos + 6 : stop].strip()
        elif not body.startswith((b":", b"id:", b"retry:"), pos):
            stray = stray or body[pos:stop]
            end = stop
        lines += 1
        pos = after
    if data or stray:
        return Frame(_whole(data), name, start, end, size, False, stray)
    return None


def _whole(data: list[bytes]) -> bytes:
    return data[0] if len(data) == 1 else b"\n".join(data)


def shape_of(body: bytes, frame: Frame, key: re.Pattern[bytes], text: str) -> Shape | None:
    """What surrounds the string behind a key, where the event has that key once and its string is `text`."""
    if not frame.plain:
        return None
    found = key.search(body, frame.start, frame.end)
    if found is None or key.search(body, found.end(), frame.end) is not None:
        return None
    begin = found.end()
    string = _STRING_END.match(body, begin, frame.end)
    stop = begin if string is None else string.end()
    try:
        if decode_string(body[begin:stop]) != text:
            return None
    except ValueError:
        return None
    return Shape(body[frame.start : begin], body[stop : frame.next], frame.end - stop)


def run_at(body: bytes, at: int, shape: Shape) -> Run | None:
    """The events from a position on that have a shape; None where they are fewer than two or not well-formed.

    Everything around the strings is compared byte for byte with an event that was parsed, and the strings are
    parsed together: nothing in a run goes unread.
    """
    prefix, suffix, rest = shape
    if not body.startswith(prefix, at):
        return None
    # Splitting at a short mark and looking at what stands before it is faster than splitting at a long one.
    mark = prefix[-_MARK:]
    before = suffix + prefix[:-_MARK]
    parts = body[at + len(prefix) : at + _PART].split(mark)
    last = parts.pop()
    size = len(before)
    raw = [part[:-size] for part in parts if part.endswith(before)]
    if len(raw) != len(parts):  # something else follows one of them, and the run ends there
        first = next(number for number, part in enumerate(parts) if not part.endswith(before))
        last = parts[first]
        del raw[first:]
    if (stop := last.find(suffix)) >= 0:  # else it goes on beyond this part, or has another shape
        raw.append(last[:stop])
    if len(raw) < 2:
        return None
    try:
        texts: list[str] = from_json(b'["%b"]' % b'","'.join(raw))
    except ValueError:
        return None  # one is not a JSON string
    if len(texts) != len(raw):
        return None
    around = len(prefix) + len(suffix)
    ends = list(accumulate([len(part) + around for part in raw], initial=at + rest - len(suffix)))
    del ends[0]
    return Run(texts, ends, ends[-1] - rest + len(suffix))

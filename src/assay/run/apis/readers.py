"""From the bytes of an answer to a draft of it: server-sent events, lines of JSON, one JSON document, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from pydantic_core import from_json

from assay.run.apis.answers import WORDS_KEPT, AnswerDraft, Usage, decode_string, not_json, parse_json, shown

_LARGEST_READ = 256 * 1024
_MEANING = {
    "skipped": "due while too many requests were open, and not sent",
    "unfinished": "still open when the run ended",
    "refused": "no connection could be made",
    "unresolved": "the host's name is not known",
    "tls": "no secure connection could be made",
    "proxy": "the proxy made no connection",
    "reset": "the connection broke before the answer began",
    "truncated": "the connection broke inside the answer",
    "malformed": "the answer is not HTTP",
    "redirect": "the answer points elsewhere, which is not followed",
    "timeout": "the answer did not end in time",
    "too-large": "the answer has more bytes than an answer may have",
}

_LONE_RETURN = re.compile(rb"\r(?!\n)")
_STRING_END = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_RETURN = 0x0D
_SPACE = 0x20
# A run is looked for in a part of the body at a time, so that reading stays linear however often the shape changes.
_PART = 64 * 1024
_MARK = 16
DONE = b"[DONE]"
# After this many events that did not begin a run, runs are no longer looked for in this answer.
_PATIENCE = 8
_MISSING = (AttributeError, TypeError, KeyError, IndexError, ValueError)


def meaning_of(outcome: str) -> str:
    """One sentence for an outcome that comes without words of its own."""
    return _MEANING.get(outcome, outcome)


def server_words(body: bytes) -> str:
    """The message in the body of an error; its beginning where it has no known form."""
    if not body:
        return "no message"
    try:
        said = words_in(parse_json(body[:_LARGEST_READ]))
    except (ValueError, RecursionError):
        said = ""
    return (said or body[: 4 * WORDS_KEPT].decode("utf-8", "replace").strip() or shown(body))[:WORDS_KEPT]


def words_in(value: Any) -> str:  # noqa: ANN401  (whatever a server sends)
    """The message of a parsed error: OpenAI's, Ollama's, FastAPI's and problem+json's forms are known."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(words for words in map(words_in, value[:5]) if words)
    if isinstance(value, Mapping):
        for key in ("error", "message", "detail", "msg", "title", "errors"):
            if value.get(key) and (message := words_in(value[key])):
                return message
    return ""


class Frame(NamedTuple):
    data: bytes
    name: bytes
    start: int
    end: int  # after the last byte of its data
    next: int  # where the next frame begins
    plain: bool  # one data line and nothing else
    stray: bytes  # a line that is no field of an event


class EventShape(NamedTuple):
    """What surrounds the one string in which events of a run differ."""

    prefix: bytes  # from the start of its line to the string
    suffix: bytes  # from the string to the start of the next event
    rest: int  # bytes of the suffix that belong to the data


class EventRun(NamedTuple):
    texts: list[str]
    ends: list[int]
    next: int


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
                return Frame(b"\n".join(data), name, start, end, after, lines == 1 and len(data) == 1, stray)
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
        return Frame(b"\n".join(data), name, start, end, size, False, stray)
    return None


def shape_of(body: bytes, frame: Frame, key: re.Pattern[bytes], text: str) -> EventShape | None:
    """What surrounds the string behind a key, where the event has that key once and its string is `text`."""
    if not frame.plain:
        return None
    match = key.search(body, frame.start, frame.end)
    if match is None or key.search(body, match.end(), frame.end) is not None:
        return None
    begin = match.end()
    string = _STRING_END.match(body, begin, frame.end)
    stop = begin if string is None else string.end()
    try:
        if decode_string(body[begin:stop]) != text:
            return None
    except ValueError:
        return None
    return EventShape(body[frame.start : begin], body[stop : frame.next], frame.end - stop)


def run_at(body: bytes, at: int, shape: EventShape) -> EventRun | None:
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
    if (stop := last.find(suffix)) >= 0:  # else it continues beyond this part, or has another shape
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
    return EventRun(texts, ends, ends[-1] - rest + len(suffix))


class Plain(NamedTuple):
    """An event that carried one string and nothing else that matters."""

    key: Any  # compiled pattern of the key before the string
    channel: int
    text: str


Take = Callable[[AnswerDraft, Mapping[str, Any], int], Plain | None]
"""Puts what one parsed event says into the draft; tells where its string was, if a run of its like may follow."""


def read_events(body: bytes, take: Take) -> AnswerDraft:
    if b"\r" in body:
        body = _LONE_RETURN.sub(b"\n", body)  # line ends that can be searched for; positions stay the same
    draft = read_part(body, take)
    _blame_end(draft, body)
    return draft


def read_part(body: bytes, take: Take) -> AnswerDraft:
    """Read some events of a normalised stream, which need not be all of them."""
    draft = AnswerDraft(streamed=True)
    patience = _PATIENCE
    at = 0
    while (frame := frame_at(body, at)) is not None:
        at = frame.next
        plain = _take_frame(draft, frame, take)
        if plain is None or not patience:
            continue
        shape = shape_of(body, frame, plain.key, plain.text)
        run = None if shape is None else run_at(body, at, shape)
        if run is None:
            patience -= 1
        while run is not None:
            draft.say_all(plain.channel, run.texts, run.ends)
            at = run.next
            run = run_at(body, at, shape) if shape is not None else None
    return draft


def _blame_end(draft: AnswerDraft, body: bytes) -> None:
    """Say so where a stream did not end as streams do; [DONE] alone or a finish reason alone is enough."""
    if draft.finish is not None or (draft.done and (draft.ends or draft.usage is not None)):
        return
    if draft.done:
        draft.blame("empty", "the stream said [DONE] and nothing else")
    elif draft.ends:
        draft.blame("cut", "the stream ended without a finish reason or [DONE]")
    else:
        draft.blame("cut" if body.strip() else "empty", _nothing_in(body))


def _take_frame(draft: AnswerDraft, frame: Frame, take: Take) -> Plain | None:
    if frame.stray:
        draft.blame("malformed", f"a line that is no event: {shown(frame.stray)}")
    data = frame.data
    if not data:
        return None
    if data == DONE:
        draft.done = True
        return None
    try:
        event = parse_json(data)
    except (ValueError, RecursionError) as problem:
        if frame.name == b"error":
            draft.blame("error-event", shown(data))
        else:
            draft.blame("malformed", not_json(data, problem))
        return None
    if frame.name == b"error" and not (isinstance(event, dict) and event.get("error")):
        draft.blame("error-event", words_in(event) or shown(data))
        return None
    return take_safely(draft, event, frame.end, take)


def read_lines(body: bytes, take: Take) -> AnswerDraft:
    draft = AnswerDraft(streamed=True)
    lines = body.split(b"\n")
    ends = list(accumulate((len(line) + 1 for line in lines), initial=-1))[1:]
    try:
        # No raw line break can stand inside JSON, so all lines can be read as one list.
        events = from_json(b"[%b]" % body.rstrip().replace(b"\n", b","))
    except ValueError:
        events = []
    if not events or len(events) != len(lines) - (not lines[-1].strip()):
        events = [_line_or_blame(draft, line) for line in lines]
    for event, end in zip(events, ends, strict=False):
        if event is not None:
            take_safely(draft, event, end, take)
    if not draft.done:
        words = "the stream ended before its last line" if draft.ends else _nothing_in(body)
        draft.blame("cut" if body.strip() else "empty", words)
    return draft


def _line_or_blame(draft: AnswerDraft, line: bytes) -> Any:  # noqa: ANN401
    if not line.strip():
        return None
    try:
        return parse_json(line)
    except (ValueError, RecursionError) as problem:
        draft.blame("malformed", not_json(line, problem))
        return None


def read_document(body: bytes, take: Take) -> AnswerDraft:
    draft = AnswerDraft(streamed=False)
    if not body.strip():
        draft.blame("empty", "the answer has no body")
        return draft
    try:
        event = parse_json(body)
    except (ValueError, RecursionError) as problem:
        draft.blame("malformed", not_json(body, problem))
        return draft
    take_safely(draft, event, len(body), take)
    return draft


def take_safely(draft: AnswerDraft, event: Any, end: int, take: Take) -> Plain | None:  # noqa: ANN401
    """Take one event; a form that the protocol does not know is a fault of the answer, not of the reader."""
    if not isinstance(event, dict):
        draft.blame("shape", f"not a JSON object: {shown(repr(event).encode())}")
        return None
    if event.get("error"):
        draft.blame("error-event", words_in(event["error"]) or shown(repr(event["error"]).encode()))
        return None
    try:
        return take(draft, event, end)
    except _MISSING as problem:
        draft.blame("shape", f"not what the protocol says ({problem}): {shown(repr(event).encode())}")
        return None


def is_document(body: bytes) -> bool:
    """Whether an answer is one JSON document although a stream may have been asked for."""
    return body[:1] == b"{" or body[:64].lstrip()[:1] == b"{"


def usage_of(given: Mapping[str, Any]) -> Usage:
    out = given.get("completion_tokens_details")
    into = given.get("prompt_tokens_details")
    return Usage(
        count_of(given.get("prompt_tokens")),
        count_of(given.get("completion_tokens")),
        count_of((out or given).get("reasoning_tokens")),
        count_of(into.get("cached_tokens")) if into else None,
    )


def count_of(value: Any) -> int | None:  # noqa: ANN401
    """A count, if that is what a server sent."""
    return value if type(value) is int and value >= 0 else None


def _nothing_in(body: bytes) -> str:
    return f"no event in the answer: {shown(body)}" if body.strip() else "the answer has no body"

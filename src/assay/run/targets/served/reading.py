"""From the bytes of an answer to a draft of it: streams of events, lines of JSON, and one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from pydantic_core import from_json

from assay.run.targets.served.answers import Draft, Usage, not_json, parse_json, shown
from assay.run.targets.served.errors import words_in
from assay.run.targets.served.sse import Frame, frame_at, normalised, run_at, shape_of

DONE = b"[DONE]"
# After this many events that did not begin a run, runs are no longer looked for in this answer.
_PATIENCE = 8
_MISSING = (AttributeError, TypeError, KeyError, IndexError, ValueError)


class Plain(NamedTuple):
    """An event that carried one string and nothing else that matters."""

    key: Any  # compiled pattern of the key before the string
    channel: int
    text: str


Take = Callable[[Draft, Mapping[str, Any], int], Plain | None]
"""Puts what one parsed event says into the draft; tells where its string was, if a run of its like may follow."""


def read_events(body: bytes, take: Take) -> Draft:
    """Read a stream of server-sent events."""
    body = normalised(body)
    draft = read_part(body, take)
    _blame_end(draft, body)
    return draft


def read_part(body: bytes, take: Take) -> Draft:
    """Read some events of a normalised stream, which need not be all of them."""
    draft = Draft(streamed=True)
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


def _blame_end(draft: Draft, body: bytes) -> None:
    """Say so where a stream did not end as streams do; [DONE] alone or a finish reason alone is enough."""
    if draft.finish is not None or (draft.done and (draft.ends or draft.usage is not None)):
        return
    if draft.done:
        draft.blame("empty", "the stream said [DONE] and nothing else")
    elif draft.ends:
        draft.blame("cut", "the stream ended without a finish reason or [DONE]")
    else:
        draft.blame("cut" if body.strip() else "empty", _nothing_in(body))


def _take_frame(draft: Draft, frame: Frame, take: Take) -> Plain | None:
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


def read_lines(body: bytes, take: Take) -> Draft:
    """Read one JSON document per line."""
    draft = Draft(streamed=True)
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


def _line_or_blame(draft: Draft, line: bytes) -> Any:  # noqa: ANN401
    if not line.strip():
        return None
    try:
        return parse_json(line)
    except (ValueError, RecursionError) as problem:
        draft.blame("malformed", not_json(line, problem))
        return None


def read_document(body: bytes, take: Take) -> Draft:
    """Read an answer that is one JSON document."""
    draft = Draft(streamed=False)
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


def take_safely(draft: Draft, event: Any, end: int, take: Take) -> Plain | None:  # noqa: ANN401
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
    """The counts of an OpenAI-like `usage`."""
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

"""From a plan to the bytes of a reply and their moments, made once where they repeat; and replies that break."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, cycle
from random import Random
from typing import Protocol

from assay.sim.apis.text import MADE, made_word
from assay.sim.faults import InjectedPause
from assay.sim.script import SimScript
from assay.sim.wire.connection import Head, HttpError, status_line
from assay.sim.world import FAULT, NUMBER_MARK, Ending, ReplySchedule, SimulatedReply

JSON = b"application/json"
EVENTS = b"text/event-stream; charset=utf-8"
LINES = b"application/x-ndjson"
_ID = b"x-request-id: sim-" + NUMBER_MARK + b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_KEPT_SHAPES = 256


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """The answer to one request, in tokens."""

    tokens: int
    reason: str
    """`stop`, or `length` where the request bounded it."""
    prompt_tokens: int
    stream: bool
    usage: bool


@dataclass(frozen=True, slots=True)
class ReplyTimes:
    """When an answer happened: nanoseconds of `perf_counter_ns`."""

    arrival_ns: int
    first_ns: int
    last_ns: int


class Dialect(Protocol):
    """How an API tells an answer."""

    name: str
    kind: bytes
    """Content type of a stream."""

    def opening(self) -> bytes | None: ...

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:
        """The event of some tokens; `first` if nothing was sent before it."""
        ...

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]: ...

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes: ...

    def error(self, problem: HttpError) -> bytes: ...

    def error_event(self, problem: HttpError) -> bytes: ...

    def broken_event(self) -> bytes:
        """An event whose content is not what it should be."""
        ...


def reply(body: bytes, status: int = 200, kind: bytes = JSON, more: bytes = b"", length: int | None = None) -> bytes:
    """A whole answer with its length; `more` is further header lines."""
    size = len(body) if length is None else length
    head = b"content-type: %b\r\n%b%bcontent-length: %d\r\n\r\n" % (kind, _ID, more, size)
    return status_line(status) + head + body


def stream_head(kind: bytes, *, chunked: bool = True) -> bytes:
    """The head of an answer of unknown length."""
    how = b"transfer-encoding: chunked\r\n" if chunked else b""
    return status_line(200) + b"content-type: %b\r\ncache-control: no-cache\r\n%b%b\r\n" % (kind, _ID, how)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def fitted(data: bytes, head: Head) -> bytes:
    """Adjust the connection header where the request does not want the default, and drop the body for HEAD."""
    if head.method == "HEAD":
        data = data[: data.index(b"\r\n\r\n") + 4]
    if head.keep_alive and not head.old:
        return data
    how = b"keep-alive" if head.keep_alive else b"close"
    return data.replace(_ID, _ID + b"connection: %b\r\n" % how, 1)


def packed(value: object) -> bytes:
    """JSON without needless spaces."""
    return _ENCODER.encode(value).encode()


def parse_request(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise HttpError(400, f"the body is not JSON: {problem}", "invalid_json") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body is not a JSON object", "invalid_json")
    return value


@dataclass(frozen=True, slots=True)
class ReplyShape:
    """The events of all answers of one API with one number of tokens."""

    events: tuple[bytes, ...]
    carried: tuple[int, ...]
    offsets_ns: tuple[int, ...]
    """When each is due, where the script fixes that for all requests alike."""
    pieces: tuple[bytes, ...]
    """The events as chunks, the head before the first."""
    joined: bytes
    """All pieces."""


class ScheduleBuilder:
    def __init__(self, script: SimScript) -> None:
        self._script = script
        self._shapes: dict[tuple[str, int], ReplyShape] = {}
        self._fixed = script.ttft.is_constant and script.itl.is_constant

    def text(self, begin: int, end: int) -> str:
        """The text of some tokens of an answer, as it follows what came before."""
        answer = self._script.answer
        reasoning = self._script.reasoning_tokens
        words = [answer[at % len(answer)] if answer else made_word(at % MADE) for at in range(begin, end)]
        return ("" if begin in (0, reasoning) else " ") + " ".join(words) if words else ""

    def shape(self, dialect: Dialect, tokens: int) -> ReplyShape:
        """The events of an answer with this many tokens."""
        key = (dialect.name, tokens)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _KEPT_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self._make(dialect, tokens)
        return shape

    def _make(self, dialect: Dialect, tokens: int) -> ReplyShape:
        script = self._script
        spans = list(_spans(script, tokens))
        role = script.role if dialect.opening() else "first"
        events = [
            dialect.event(
                self.text(begin, end), reasoning=begin < script.reasoning_tokens, first=begin == 0 and role == "first"
            )
            for begin, end in spans
        ]
        carried = [end - begin for begin, end in spans]
        offsets = offsets_ns(script, carried, None)
        if role != "first":
            events.insert(0, dialect.opening() or b"")
            carried.insert(0, 0)
            offsets.insert(0, 0 if role == "early" else offsets[0])
        pieces = [chunk(event) for event in events]
        pieces[0] = stream_head(dialect.kind) + pieces[0]
        return ReplyShape(tuple(events), tuple(carried), tuple(offsets), tuple(pieces), b"".join(pieces))

    def offsets_ns(
        self, shape: ReplyShape, chance: Random, factor: float, pause: InjectedPause | None
    ) -> Sequence[int]:
        """When each event of a request is due."""
        if self._fixed and factor == 1.0 and pause is None:
            return shape.offsets_ns
        opened = shape.carried[0] == 0
        own = offsets_ns(self._script, shape.carried[opened:], chance, factor, pause)
        if opened:
            own.insert(0, 0 if self._script.role == "early" else own[0])
        return own

    def stream(self, dialect: Dialect, plan: ReplyPlan, head: Head, offsets: Sequence[int]) -> ReplySchedule:
        shape = self.shape(dialect, plan.tokens)

        def tail(answer: SimulatedReply) -> bytes:
            times = times_of(answer)
            return b"".join(dialect.ending(plan, times)) if head.old else tail_of(dialect, plan, times)

        pieces: Sequence[bytes] = shape.pieces
        if head.old:
            first = fitted(stream_head(dialect.kind, chunked=False), head).replace(b"keep-alive", b"close", 1)
            pieces = (first + shape.events[0], *shape.events[1:])
        elif not head.keep_alive:
            pieces = (fitted(shape.pieces[0], head), *shape.pieces[1:])
        return ReplySchedule(
            pieces,
            shape.carried,
            offsets,
            tail,
            "close" if head.old else "keep",
            reason=plan.reason,
            prompt_tokens=plan.prompt_tokens,
        )

    def whole(self, dialect: Dialect, plan: ReplyPlan, head: Head, offsets: Sequence[int]) -> ReplySchedule:
        """An answer in one piece, due when its last token is."""
        split = min(self._script.reasoning_tokens, plan.tokens)
        reasoning, text = self.text(0, split), self.text(split, plan.tokens)

        def tail(answer: SimulatedReply) -> bytes:
            return fitted(reply(dialect.whole(plan, reasoning, text, times_of(answer)), kind=JSON), head)

        return ReplySchedule(
            (b"",), (plan.tokens,), (offsets[-1],), tail, reason=plan.reason, prompt_tokens=plan.prompt_tokens
        )


def tail_of(dialect: Dialect, plan: ReplyPlan, times: ReplyTimes) -> bytes:
    """What follows the last token of a stream."""
    return b"".join([chunk(event) for event in dialect.ending(plan, times)]) + LAST_CHUNK


def times_of(answer: SimulatedReply) -> ReplyTimes:
    return ReplyTimes(answer.arrival_ns, answer.first_ns, answer.last_ns)


def offsets_ns(
    script: SimScript,
    carried: Sequence[int],
    chance: Random | None,
    factor: float = 1.0,
    pause: InjectedPause | None = None,
) -> list[int]:
    """When each chunk is due after the start.

    The first chunk is due at `ttft`, however many tokens it has; each further one an `itl` later for each of its
    tokens. So (last - first) / (tokens - tokens of the first chunk) is `itl`, whatever travels together.
    """
    source = chance or Random(0)  # noqa: S311  (no secret)
    first = script.ttft.value(source)
    itl = script.itl
    if itl.is_constant:
        gaps = [itl.first * tokens for tokens in carried[1:]]
    else:
        gaps = [sum(itl.value(source) for _ in range(tokens)) for tokens in carried[1:]]
    offsets = [round(offset * factor * 1e9) for offset in accumulate(chain((first,), gaps))]
    if pause is not None:
        wait_ns = round(pause.for_s * 1e9)
        before = chain((0,), accumulate(carried))
        offsets = [
            offset + (wait_ns if position >= pause.after else 0)
            for offset, position in zip(offsets, before, strict=False)
        ]
    return offsets


def _spans(script: SimScript, tokens: int) -> list[tuple[int, int]]:
    """Which tokens travel together; a chunk is either reasoning or answer."""
    first = () if script.first_chunk_tokens is None else (script.first_chunk_tokens,)
    spans: list[tuple[int, int]] = []
    begin = 0
    for size in chain(first, cycle(script.tokens_per_chunk)):
        if begin >= tokens:
            break
        end = min(begin + size, tokens)
        if begin < script.reasoning_tokens < end:
            spans.append((begin, script.reasoning_tokens))
            begin = script.reasoning_tokens
        spans.append((begin, end))
        begin = end
    return spans


NOT_HTTP = b"220 this is not HTTP\r\nnor is this\r\n\r\n"


@dataclass(frozen=True, slots=True)
class IntactReply:
    """An answer as it would have been."""

    head: Head
    kind: bytes
    """Content type."""
    events: Sequence[bytes]
    """The events of a stream, or one body."""
    carried: Sequence[int]
    offsets_ns: Sequence[int]
    stream: bool
    error: bytes
    """Body that reports an error."""
    error_event: bytes
    broken_event: bytes
    prompt_tokens: int = 0
    tail: bytes = b""
    """What would follow the last event."""


def broken_reply(fault: str, sound: IntactReply) -> ReplySchedule:
    """What is sent instead of a sound answer."""
    if fault.isdecimal():
        more = b"retry-after: 1\r\n" if fault in ("429", "503") else b""
        return _single(sound, fitted(reply(sound.error, int(fault), JSON, more), sound.head), status=int(fault))
    if fault == "redirect":
        return _single(sound, fitted(reply(b"", 307, JSON, b"location: /elsewhere\r\n"), sound.head), status=307)
    if fault == "reset":
        return _single(sound, b"", "reset")
    if fault == "silence":
        return ReplySchedule((), (), (), None, "hold", 0, FAULT, prompt_tokens=sound.prompt_tokens)
    if fault == "malformed-http" or (fault == "malformed-chunk" and not sound.stream):
        return _single(sound, NOT_HTTP, "close")
    if fault == "wrong-length":
        return _wrong_length(sound)
    return _inside(fault, sound if sound.stream else _halved(sound))


def _single(sound: IntactReply, data: bytes, ending: Ending = "keep", status: int = 0) -> ReplySchedule:
    # A server that will not answer says so immediately.
    offset = 0 if status else sound.offsets_ns[0]
    return ReplySchedule((data,), (0,), (offset,), None, ending, status, FAULT, prompt_tokens=sound.prompt_tokens)


def _halved(sound: IntactReply) -> IntactReply:
    """A body in two parts, so that it has a middle."""
    body, at, half = sound.events[0], sound.offsets_ns[0], len(sound.events[0]) // 2
    carried = (0, *sound.carried)
    return replace(sound, events=(body[:half], body[half:]), carried=carried, offsets_ns=(at, at))


def _wrong_length(sound: IntactReply) -> ReplySchedule:
    body = b"".join(sound.events) + sound.tail
    data = reply(b"", 200, sound.kind, length=len(body) + 10)
    last = sound.events[-1] + sound.tail if len(sound.events) > 1 else sound.tail
    return _course(sound, [data + sound.events[0], *sound.events[1:-1], last], "close")


def _inside(fault: str, sound: IntactReply) -> ReplySchedule:
    """Something happens after half of the events, at the moment of the next one."""
    half = (len(sound.events) + 1) // 2
    framed = [chunk(event) for event in sound.events[:half]] if sound.stream else list(sound.events[:half])
    size = sum(len(event) for event in sound.events)
    what: bytes = b""
    ending: Ending = "close"
    if fault == "reset-inside":
        ending = "reset"
    elif fault == "hang":
        ending = "hold"
    elif fault == "unfinished":
        size, what, ending = len(sound.events[0]), LAST_CHUNK if sound.stream else b"", "keep"
    elif fault == "malformed-event":
        what, ending = _broken(sound, half), "keep"
        size = len(sound.events[0]) + len(sound.broken_event)
    elif fault == "error-event":
        event = sound.error_event if sound.stream else sound.error
        framed = framed if sound.stream else [b""]
        what, ending, size = chunk(event) + LAST_CHUNK if sound.stream else event, "keep", len(event)
    elif fault == "malformed-chunk":
        what = b"XYZ\r\nthis chunk has no size\r\n"
    elif fault == "endless":
        return _endless(sound)
    head = stream_head(sound.kind) if sound.stream else reply(b"", 200, sound.kind, length=size)
    return _course(sound, [fitted(head, sound.head) + framed[0], *framed[1:], what], ending, half)


def _broken(sound: IntactReply, half: int) -> bytes:
    if not sound.stream:
        return sound.broken_event
    rest = [chunk(event) for event in sound.events[half + 1 :]]
    return b"".join([chunk(sound.broken_event), *rest, chunk(sound.tail) if sound.tail else b"", LAST_CHUNK])


def _endless(sound: IntactReply) -> ReplySchedule:
    """The events from the second one on, again and again; a body that should have a length is spaces without end."""
    events = sound.events if sound.stream else (sound.events[0], b" " * 64)
    if len(events) == 1:
        events = (*events, *events)
    carried = [*sound.carried, *sound.carried][: len(events)]
    offsets = [*sound.offsets_ns, *sound.offsets_ns][: len(events)]
    pieces = [chunk(event) for event in events]
    pieces[0] = stream_head(sound.kind) + pieces[0]
    return ReplySchedule(pieces, carried, offsets, None, "again", 200, FAULT, prompt_tokens=sound.prompt_tokens)


def _course(sound: IntactReply, pieces: Sequence[bytes], ending: Ending, written: int | None = None) -> ReplySchedule:
    """Pieces at the moments of the events; what comes after the written ones carries no tokens."""
    count = len(pieces)
    written_count = len(sound.offsets_ns) if written is None else written
    carried = [*sound.carried[:written_count], *[0] * count][:count]
    offsets = [*sound.offsets_ns, *[sound.offsets_ns[-1]] * count][:count]
    return ReplySchedule(pieces, carried, offsets, None, ending, 200, FAULT, prompt_tokens=sound.prompt_tokens)

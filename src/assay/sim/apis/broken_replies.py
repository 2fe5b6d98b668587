"""Replies that break on purpose: one schedule per fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.sim.apis.schedule import JSON, LAST_CHUNK, chunk, fitted, reply, stream_head
from assay.sim.reply import FAULT, Ending, ReplySchedule
from assay.sim.wire.request_head import Head

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
    # A server that will not answer says so at once.
    offset = 0 if status else sound.offsets_ns[0]
    return ReplySchedule((data,), (0,), (offset,), None, ending, status, FAULT, prompt_tokens=sound.prompt_tokens)


def _halved(sound: IntactReply) -> IntactReply:
    """A body in two parts, so that it has a middle."""
    body, at, half = sound.events[0], sound.offsets_ns[0], len(sound.events[0]) // 2
    return IntactReply(
        sound.head,
        sound.kind,
        (body[:half], body[half:]),
        (0, *sound.carried),
        (at, at),
        False,
        sound.error,
        sound.error_event,
        sound.broken_event,
        sound.prompt_tokens,
    )


def _wrong_length(sound: IntactReply) -> ReplySchedule:
    body = b"".join(sound.events) + sound.tail
    data = reply(b"", 200, sound.kind, length=len(body) + 10)
    return _course(sound, [data + sound.events[0], *sound.events[1:-1], *_last(sound)], "close")


def _last(sound: IntactReply) -> list[bytes]:
    return [sound.events[-1] + sound.tail] if len(sound.events) > 1 else [sound.tail]


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
    known = len(sound.offsets_ns) if written is None else written
    carried = [*sound.carried[:known], *[0] * count][:count]
    offsets = [*sound.offsets_ns, *[sound.offsets_ns[-1]] * count][:count]
    return ReplySchedule(pieces, carried, offsets, None, ending, 200, FAULT, prompt_tokens=sound.prompt_tokens)

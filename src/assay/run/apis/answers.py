"""One answer, as it is read after the load: its text, its counts, how it ended and what was wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json

TEXT, REASONING, TOOL = 0, 1, 2
"""Channels: where the text of an event belongs."""

FaultKind = Literal["error-event", "malformed", "cut", "shape", "empty"]
# What can be wrong with an answer whose HTTP was fine:
#   error-event  the server reported an error inside the answer
#   malformed    something that is no JSON, or no event     shape   JSON that the protocol does not know
#   cut          it ended without a finish reason or [DONE]  empty   it has no body
FAULTS: tuple[FaultKind, ...] = ("error-event", "malformed", "cut", "shape", "empty")
WORDS_KEPT = 300
_SHOWN = 120


class Usage(NamedTuple):
    """Token counts that the server itself gave; None where it did not."""

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None  # part of the output that was spent on reasoning
    cached: int | None = None  # part of the input that the server had in a cache


@dataclass(frozen=True, slots=True)
class AnswerFault:
    """What is wrong with an answer, in the server's words or with the first bad bytes."""

    kind: FaultKind
    words: str


class AnswerDraft:
    """An answer, as far as it was read."""

    __slots__ = (
        "blanks", "channels", "dims", "done", "ends", "fault", "finish", "finish_end", "id", "parts", "said",
        "streamed", "usage", "vectors",
    )  # fmt: skip

    def __init__(self, *, streamed: bool) -> None:
        self.streamed = streamed
        # For each event that carries tokens: the position after its last byte of data, its channel, its text.
        self.ends: list[int] = []
        self.channels = bytearray()
        self.parts: list[str] = []
        self.said: tuple[list[str], list[str], list[str]] = ([], [], [])
        """Texts by channel; of tool calls, names and arguments."""
        self.blanks: list[int] = []
        """Ends of events with an empty text, which may stand for a token that shows nothing."""
        self.finish_end = -1
        """End of the event that gave the finish reason and had no text; -1 where there was none."""
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.fault: AnswerFault | None = None
        self.id: str | None = None
        self.done = False
        """Whether the server said that this was all."""
        self.vectors = self.dims = 0  # embeddings in it, and their length

    @property
    def text(self) -> str:
        return joined(self.said[TEXT])

    @property
    def reasoning(self) -> str:
        return joined(self.said[REASONING])

    @property
    def tools(self) -> str:
        return "".join(self.said[TOOL])

    def say(self, channel: int, text: str, end: int) -> None:
        """Keep a text of one event; several of one event are one event still."""
        if not isinstance(text, str):
            raise TypeError(f"a text that is no string: {text!r}")
        self.said[channel].append(text)
        if self.ends and self.ends[-1] == end:
            self.parts[-1] += text
            if self.channels[-1] == REASONING:
                self.channels[-1] = channel
            return
        self.ends.append(end)
        self.channels.append(channel)
        self.parts.append(text)

    def say_all(self, channel: int, texts: list[str], ends: list[int]) -> None:
        if "" in texts:
            self.blanks += [end for end, text in zip(ends, texts, strict=True) if not text]
            ends = [end for end, text in zip(ends, texts, strict=True) if text]
            texts = [text for text in texts if text]
        self.ends += ends
        self.channels += bytes((channel,)) * len(ends)
        self.parts += texts
        self.said[channel].extend(texts)

    def blame(self, kind: FaultKind, words: str) -> None:
        """Keep what is wrong; the first fault is the one that matters."""
        if self.fault is None:
            self.fault = AnswerFault(kind, words[:WORDS_KEPT])


def parse_json(data: bytes) -> Any:  # noqa: ANN401  (whatever a server sends)
    """Read JSON; half a surrogate pair, which servers do send, is let through."""
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def decode_string(raw: bytes) -> str:
    """The text of a JSON string without its quotes."""
    text = parse_json(b'"%b"' % raw)
    if not isinstance(text, str):
        raise ValueError("not a string")  # noqa: TRY004  (a value that does not parse)
    return text


def joined(texts: Sequence[str]) -> str:
    """Texts put together; halves of surrogate pairs that came in two events become whole."""
    text = texts[0] if len(texts) == 1 else "".join(texts)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shown(data: bytes, at: int = 0) -> str:
    """The bytes of something that could not be read, from a little before where it went wrong."""
    begin = max(0, at - 40) if len(data) > _SHOWN else 0
    part = data[begin : begin + _SHOWN]
    return ("…" if begin else "") + repr(part)[1:] + ("…" if begin + _SHOWN < len(data) else "")


def not_json(data: bytes, problem: Exception) -> str:
    """Where something stops being JSON, with the bytes there."""
    at = problem.pos if isinstance(problem, json.JSONDecodeError) else 0
    return f"not JSON at character {at}: {shown(data, at)}"

"""From a plan to the bytes and their moments. What repeats between requests is made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, cycle
from random import Random

from assay.sim.answer import Answer, Course
from assay.sim.apis.plan import Dialect, Plan, Times
from assay.sim.apis.replies import JSON, LAST_CHUNK, chunk, fitted, reply, stream_head
from assay.sim.apis.words import MADE, made_word
from assay.sim.faults import Pause
from assay.sim.script import Script
from assay.sim.wire.heads import Head

_KEPT_SHAPES = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """The events of all answers of one API with one number of tokens."""

    events: tuple[bytes, ...]
    carried: tuple[int, ...]
    offsets_ns: tuple[int, ...]
    """When each is due, where the script fixes that for all requests alike."""
    pieces: tuple[bytes, ...]
    """The events as chunks, the head before the first."""
    joined: bytes
    """All pieces."""


class Courses:
    """Makes courses of plans."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._shapes: dict[tuple[str, int], Shape] = {}
        self._fixed = script.ttft.is_constant and script.itl.is_constant

    def text(self, begin: int, end: int) -> str:
        """The text of some tokens of an answer, as it follows what was said before."""
        given = self._script.answer
        reasoning = self._script.reasoning_tokens
        words = [given[at % len(given)] if given else made_word(at % MADE) for at in range(begin, end)]
        return ("" if begin in (0, reasoning) else " ") + " ".join(words) if words else ""

    def shape(self, dialect: Dialect, tokens: int) -> Shape:
        """The events of an answer with this many tokens."""
        key = (dialect.name, tokens)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _KEPT_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self._make(dialect, tokens)
        return shape

    def _make(self, dialect: Dialect, tokens: int) -> Shape:
        script = self._script
        spans = list(_spans(script, tokens))
        role = script.role if dialect.opening() else "first"
        events = [
            dialect.event(
                self.text(begin, end),
                reasoning=begin < script.reasoning_tokens,
                first=begin == 0 and role == "first",
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
        return Shape(tuple(events), tuple(carried), tuple(offsets), tuple(pieces), b"".join(pieces))

    def offsets_ns(self, shape: Shape, chance: Random, factor: float, pause: Pause | None) -> Sequence[int]:
        """When each event of a request is due."""
        if self._fixed and factor == 1.0 and pause is None:
            return shape.offsets_ns
        opened = shape.carried[0] == 0
        own = offsets_ns(self._script, shape.carried[opened:], chance, factor, pause)
        if opened:
            own.insert(0, 0 if self._script.role == "early" else own[0])
        return own

    def stream(self, dialect: Dialect, plan: Plan, head: Head, offsets: Sequence[int]) -> Course:
        """An answer in events."""
        shape = self.shape(dialect, plan.tokens)

        def tail(answer: Answer) -> bytes:
            return tail_of(dialect, plan, times_of(answer))

        if head.old:
            first = fitted(stream_head(dialect.kind, chunked=False), head).replace(b"keep-alive", b"close", 1)
            return Course(
                (first + shape.events[0], *shape.events[1:]),
                shape.carried,
                offsets,
                lambda answer: b"".join(dialect.ending(plan, times_of(answer))),
                "close",
                reason=plan.reason,
                prompt_tokens=plan.prompt_tokens,
            )
        pieces: Sequence[bytes] = shape.pieces
        if not head.keep_alive:
            pieces = (fitted(shape.pieces[0], head), *shape.pieces[1:])
        return Course(pieces, shape.carried, offsets, tail, reason=plan.reason, prompt_tokens=plan.prompt_tokens)

    def whole(self, dialect: Dialect, plan: Plan, head: Head, offsets: Sequence[int]) -> Course:
        """An answer in one piece, due when its last token is."""
        split = min(self._script.reasoning_tokens, plan.tokens)
        reasoning, text = self.text(0, split), self.text(split, plan.tokens)

        def tail(answer: Answer) -> bytes:
            return fitted(reply(dialect.whole(plan, reasoning, text, times_of(answer)), kind=JSON), head)

        return Course(
            (b"",), (plan.tokens,), (offsets[-1],), tail, reason=plan.reason, prompt_tokens=plan.prompt_tokens
        )


def tail_of(dialect: Dialect, plan: Plan, times: Times) -> bytes:
    """What follows the last token of a stream."""
    return b"".join([chunk(event) for event in dialect.ending(plan, times)]) + LAST_CHUNK


def times_of(answer: Answer) -> Times:
    """When an answer happened so far."""
    return Times(answer.arrival_ns, answer.first_ns, answer.last_ns)


def offsets_ns(
    script: Script, carried: Sequence[int], chance: Random | None, factor: float = 1.0, pause: Pause | None = None
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
            offset + (wait_ns if said >= pause.after else 0) for offset, said in zip(offsets, before, strict=False)
        ]
    return offsets


def _spans(script: Script, tokens: int) -> list[tuple[int, int]]:
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

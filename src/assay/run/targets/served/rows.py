"""What the answers of a whole load say, in columns beside those of its recording; no answer is kept as an object."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.run.apis.answers import FAULTS, REASONING, TEXT, TOOL, AnswerDraft, Usage
from assay.run.apis.contract import ServedApi
from assay.run.load.http.recording import CODE, LoadRecording
from assay.run.targets.served.counting import CHECKED, EVENTS, LOCAL, UNKNOWN, USAGE, Counter, Tally, apportion
from assay.run.targets.served.fast_reader import AnswerOutline, AnswerOutlines, FastReader, is_exact
from assay.run.tokens import Tokenizer
from assay.run.workloads import Item

_OK, _CONTENT = CODE["ok"], CODE["content"]
# Answers that did not end well are read as far as they came: their tokens did arrive.
_READ = frozenset(CODE[name] for name in ("ok", "unfinished", "truncated", "timeout", "too-large"))
_BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One row per request of the recording. Times of 0 are never, counts of -1 are not known."""

    outcome: NDArray[np.int8]
    """As in the recording, and `content` where HTTP was fine and the answer was not."""
    fault: NDArray[np.int8]
    """Position in FAULTS of what is wrong with the content, -1 for nothing."""
    streamed: NDArray[np.bool_]
    reasoned: NDArray[np.bool_]
    """Whether reasoning came with the answer."""
    first_ns: NDArray[np.int64]
    """Arrival of the first token."""
    answer_ns: NDArray[np.int64]
    """Arrival of the first token after reasoning; of the first of all where there was no reasoning."""
    last_ns: NDArray[np.int64]
    """Arrival of the last token."""
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    hidden_tokens: NDArray[np.int32]
    """Part of the output that was never sent: reasoning that the server keeps to itself."""
    cached_tokens: NDArray[np.int32]
    first_tokens: NDArray[np.int32]
    """Tokens that came with the first arrival."""
    chunks: NDArray[np.int32]
    """Events that carried tokens."""
    first_chunk: NDArray[np.int32]
    """Tokens of the first event."""
    input_source: NDArray[np.int8]
    output_source: NDArray[np.int8]
    """Position in SOURCES."""
    finish: NDArray[np.int16]
    """Position in `finish_names`, -1 where none was given."""
    asked_input: NDArray[np.int32]
    asked_output: NDArray[np.int32]
    piece_events: NDArray[np.int32]
    """For each piece of the recording: events with tokens that end in it."""
    piece_tokens: NDArray[np.int32]
    """For each piece: tokens that arrived with it; 0 where tokens could not be counted."""
    finish_names: tuple[str, ...]
    words: dict[tuple[int, str], str]
    """Phase and kind of fault → what the first one said."""
    dims: frozenset[int]
    """Lengths of the vectors in the answers."""
    tally: Tally


# Many of them are filled by the reader under the same names; the others are worked out of these at the end.
_COLUMNS = {column.name for column in fields(Rows)}


class _Marks:
    """Positions of one block, answer by answer; they become positions in the whole content in one step."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[Sequence[int]] = []
        self.tokens: list[Sequence[int]] = []

    def add(self, start: int, ends: Sequence[int], tokens: Sequence[int] | None = None) -> None:
        """Positions inside the body that begins at `start`."""
        self.starts.append(start)
        self.ends.append(ends)
        if tokens is not None:
            self.tokens.append(tokens)

    def by_piece(self, piece_ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """How many of them, or of their tokens, lie in each piece."""
        ends = np.fromiter(chain.from_iterable(self.ends), dtype=np.int64)
        ends += np.repeat(np.asarray(self.starts, dtype=np.int64), [len(some) for some in self.ends])
        weights = np.fromiter(chain.from_iterable(self.tokens), dtype=np.float64) if self.tokens else None
        return events_by_piece(ends, piece_ends, weights)


def events_by_piece(
    ends: NDArray[np.int64], piece_ends: NDArray[np.int64], weights: NDArray[np.float64] | None = None
) -> NDArray[np.int32]:
    """How many positions, or how much weight, lie in each piece."""
    at = np.minimum(np.searchsorted(piece_ends, ends), len(piece_ends) - 1)
    return np.bincount(at, weights=weights, minlength=len(piece_ends)).astype(np.int32)


class _Placed:
    """Where in the content of one block things lie."""

    def __init__(self) -> None:
        self.events = _Marks()
        self.single = _Marks()  # tokens that came one by one
        self.bundled = _Marks()  # tokens that came several together
        self.known = AnswerOutlines()  # answers whose events have one token each
        self.answers: list[tuple[int, int]] = []  # row, and position of the first event after reasoning


@dataclass(slots=True)
class _Pending:
    """Answers of one block that a tokenizer has to count."""

    rows: list[int] = field(default_factory=list)
    drafts: list[AnswerDraft] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class _Reader:
    def __init__(self, recording: LoadRecording, api: ServedApi, counter: Counter) -> None:
        n, pieces = len(recording), len(recording.piece_ns)
        self.recording, self.api, self.counter = recording, api, counter
        self.alike = None if api.take is None else FastReader(api.take)
        self.outcome = recording.outcome.copy()
        self.fault = np.full(n, -1, dtype=np.int8)
        self.streamed = np.zeros(n, dtype=np.bool_)
        self.reasoned = np.zeros(n, dtype=np.bool_)
        self.answer_piece = np.full(n, -1, dtype=np.int64)
        self.input_tokens, self.output_tokens, self.hidden_tokens, self.cached_tokens = (
            np.full(n, -1, dtype=np.int32) for _ in range(4)
        )
        self.chunks, self.first_chunk = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        self.input_source, self.output_source = np.zeros(n, dtype=np.int8), np.zeros(n, dtype=np.int8)
        self.finish = np.full(n, -1, dtype=np.int16)
        self.finish_codes: dict[str, int] = {}
        self.piece_events, self.piece_tokens = np.zeros(pieces, dtype=np.int32), np.zeros(pieces, dtype=np.int32)
        self.words: dict[tuple[int, str], str] = {}
        self.dims: set[int] = set()

    def read_block(self, low: int, high: int) -> None:
        recording = self.recording
        starts = (recording.body[low:high] + recording.head[low:high]).tolist()
        stops = recording.body[low + 1 : high + 1].tolist()
        codes = recording.outcome[low:high].tolist()
        placed = _Placed()
        pending, checks = _Pending(), _Pending()
        for row, code, start, stop in zip(range(low, high), codes, starts, stops, strict=True):
            if code not in _READ or (start == stop and code != _OK):
                continue
            body = bytes(recording.content[start:stop])
            outline = self._outline(body, code, len(checks.rows))
            if outline is not None and is_exact(outline):
                placed.known.add(row, start, outline, self._finish_code(outline.finish))
                continue
            draft = self._draft(body, code, outline)
            self._note(row, draft, code)
            if not self.api.generates:
                continue
            if draft.streamed:
                placed.events.add(start, draft.ends)
                if draft.said[REASONING]:
                    placed.answers += [(row, start + draft.ends[at]) for at in _first_answer(draft)]
            self._count(row, draft, start, stop, placed, pending, checks)
        self._count_pending(pending, placed, stops, low)
        self._check(checks)
        if len(placed.known):
            self._note_outlines(placed.known)
        self._place(low, high, placed)
        recording.let_go(high)

    def _outline(self, body: bytes, code: int, checks: int) -> AnswerOutline | None:
        """Read one answer without its texts, where it is like others and they are not needed."""
        if self.alike is None or code != _OK or self.counter.wants_check(checks):
            return None
        return self.alike.read(body)

    def _draft(self, body: bytes, code: int, outline: AnswerOutline | None) -> AnswerDraft:
        """Read one answer whole, or as far as it is wanted."""
        if outline is not None and self.counter.source == UNKNOWN:
            return outline.draft()
        draft = self.api.draft(body)
        if outline is None and self.alike is not None and code == _OK:
            self.alike.learn(body, draft)
        return draft

    def _note_outlines(self, known: AnswerOutlines) -> None:
        """Keep what answers that were read in outline say about themselves, and the server's counts."""
        rows, counts = known.rows(), {name: known.usage(name) for name in Usage._fields}
        output = counts["output"]
        hidden = np.minimum(np.maximum(counts["reasoning"], 0), output)
        self.streamed[rows] = True
        self.chunks[rows] = output - hidden  # each token came with an event of its own
        self.finish[rows] = known.finishes
        self.input_tokens[rows], self.cached_tokens[rows] = counts["input"], counts["cached"]
        self.input_source[rows] = np.where(counts["input"] >= 0, USAGE, UNKNOWN)
        self.output_tokens[rows], self.hidden_tokens[rows], self.output_source[rows] = output, hidden, USAGE
        self.first_chunk[rows] = np.minimum(1, output - hidden)
        tally = self.counter.tally
        tally.largest_chunk = max(tally.largest_chunk, 1)

    def _finish_code(self, reason: str | None) -> int:
        return -1 if reason is None else self.finish_codes.setdefault(reason, len(self.finish_codes))

    def _note(self, row: int, draft: AnswerDraft, code: int) -> None:
        self.streamed[row] = draft.streamed
        self.chunks[row] = len(draft.ends) if draft.streamed else 0
        self.reasoned[row] = bool(draft.said[REASONING])
        if draft.dims:
            self.dims.add(draft.dims)
        self.finish[row] = self._finish_code(draft.finish)
        if (usage := draft.usage) is not None:
            if usage.input is not None:
                self.input_tokens[row], self.input_source[row] = usage.input, USAGE
            if usage.cached is not None:
                self.cached_tokens[row] = usage.cached
        if draft.fault is not None and code == _OK:
            self.outcome[row] = _CONTENT
            self.fault[row] = FAULTS.index(draft.fault.kind)
            self.words.setdefault((int(self.recording.phase[row]), draft.fault.kind), draft.fault.words)

    def _count(
        self, row: int, draft: AnswerDraft, start: int, stop: int, placed: _Placed, pending: _Pending, checks: _Pending
    ) -> None:
        """Take the server's count, or leave the answer for a tokenizer."""
        usage = draft.usage
        if usage is None or usage.output is None or self.outcome[row] != _OK:
            if self.counter.source != UNKNOWN:
                pending.rows.append(row)
                pending.drafts.append(draft)
                pending.starts.append(start)
            return
        hidden = min(usage.reasoning or 0, usage.output) if not draft.said[REASONING] else 0
        self.output_tokens[row], self.output_source[row], self.hidden_tokens[row] = usage.output, USAGE, hidden
        if draft.ends and self.counter.wants_check(len(checks.rows)):
            checks.rows.append(row)
            checks.drafts.append(draft)
        self._spread(row, draft, usage.output - hidden, start, stop, placed)

    def _spread(self, row: int, draft: AnswerDraft, tokens: int, start: int, stop: int, placed: _Placed) -> None:
        """Say where in the content the tokens of one answer lie."""
        if not draft.streamed:
            placed.bundled.add(stop, (0,), (tokens,))
            return
        if not draft.ends and tokens and draft.finish_end < 0:
            return  # nothing was seen to arrive
        spread = self.counter.spread(draft, tokens)
        if spread.tokens is None:
            placed.single.add(start, spread.ends)
            self.chunks[row] = len(spread.ends)  # with those that show nothing: half a character is a token too
            self.first_chunk[row] = min(1, tokens)
        else:
            placed.bundled.add(start, spread.ends, spread.tokens)
            self.first_chunk[row] = spread.tokens[0] if spread.tokens else 0

    def _count_pending(self, pending: _Pending, placed: _Placed, stops: list[int], low: int) -> None:
        """Count by a tokenizer what the server did not count, all answers of a block together."""
        texts = [["".join(said) for said in draft.said if said] for draft in pending.drafts]
        counts = iter(self.counter.count([text for some in texts for text in some]))
        for row, draft, start, some in zip(pending.rows, pending.drafts, pending.starts, texts, strict=True):
            tokens = sum(next(counts) for _ in some)
            self.output_tokens[row], self.output_source[row], self.hidden_tokens[row] = tokens, self.counter.source, 0
            if self.counter.server is not None and some and self.counter.wants_check():
                self.counter.check([tokens], ["".join(some)])
            self._spread(row, draft, tokens, start, stops[row - low], placed)

    def _check(self, checks: _Pending) -> None:
        used = [int(self.output_tokens[row]) - int(self.hidden_tokens[row]) for row in checks.rows]
        texts = [
            "".join("".join(draft.said[channel]) for channel in (REASONING, TEXT, TOOL)) for draft in checks.drafts
        ]
        self.counter.check(used, texts)

    def _place(self, low: int, high: int, placed: _Placed) -> None:
        """Give the tokens and events of a block to the pieces that they came with."""
        recording = self.recording
        first, last = int(recording.pieces[low]), int(recording.pieces[high])
        if first == last:
            return
        begins = np.repeat(
            recording.body[low:high] + recording.head[low:high], np.diff(recording.pieces[low : high + 1])
        )
        ends = recording.piece_end[first:last] + begins
        self.piece_events[first:last] = placed.events.by_piece(ends)
        self.piece_tokens[first:last] = placed.single.by_piece(ends) + placed.bundled.by_piece(ends)
        if len(placed.known):
            events = events_by_piece(placed.known.text_ends(), ends)
            self.piece_events[first:last] += events
            self.piece_tokens[first:last] += events + events_by_piece(placed.known.finish_ends(), ends)
        if placed.answers:
            rows, at = zip(*placed.answers, strict=True)
            piece_index = np.searchsorted(ends, np.asarray(at, dtype=np.int64))
            self.answer_piece[list(rows)] = first + np.minimum(piece_index, last - first - 1)


def read_rows(
    recording: LoadRecording,
    api: ServedApi,
    items: Sequence[Item],
    counter: Counter | None = None,
    *,
    block: int = _BLOCK,
) -> Rows:
    """Read every answer of a load.

    Args:
        counter: What counts tokens where the server does not; nothing when left out.
    """
    counter = counter or Counter()
    reader = _Reader(recording, api, counter)
    with _no_collector():
        for low in range(0, len(recording), block):
            reader.read_block(low, min(low + block, len(recording)))
    if api.generates:
        _estimate_open(reader)
    _count_inputs(reader, items)
    return _finished(reader, items)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector from looking at millions of small objects that come and go by themselves."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _first_answer(draft: AnswerDraft) -> list[int]:
    """Position of the first event after reasoning, if there is one."""
    for at, channel in enumerate(draft.channels):
        if channel != REASONING:
            return [at]
    return []


def _estimate_open(reader: _Reader) -> None:
    """Tokens of answers that did not end and that nothing counted: as many per event as in the others."""
    counted = (reader.output_source == USAGE) & (reader.chunks > 0)
    upto = np.concatenate([[0], np.cumsum(reader.piece_events, dtype=np.int64)])[reader.recording.pieces]
    events = int(np.diff(upto)[counted].sum())  # with text, as they are seen in answers that did not end
    if not events:
        return
    per_event = float((reader.output_tokens[counted] - reader.hidden_tokens[counted]).sum()) / events
    opened = (reader.output_source == UNKNOWN) & (reader.outcome != _OK) & (reader.chunks > 0) & reader.streamed
    pieces = reader.recording.pieces
    for row in np.flatnonzero(opened):
        span = slice(int(pieces[row]), int(pieces[row + 1]))
        seen = reader.piece_events[span]
        tokens = round(per_event * int(seen.sum()))
        reader.piece_tokens[span] = apportion(tokens, seen.astype(np.float64))
        reader.output_tokens[row], reader.output_source[row] = tokens, EVENTS


def _count_inputs(reader: _Reader, items: Sequence[Item]) -> None:
    """Count prompts by a tokenizer where the server did not, and compare some of both."""
    counter, recording = reader.counter, reader.recording
    if counter.source == UNKNOWN or not reader.api.counts_input or not items or not len(recording):
        return
    which = recording.session % len(items)
    # Later turns hold the server's answers too, which the item alone does not say.
    first = (recording.turn == 0) & (reader.outcome == _OK)
    lacking = first & (reader.input_source == UNKNOWN)
    used = np.unique(which[lacking])
    if len(used):
        by_item = np.full(len(items), -1, dtype=np.int32)
        by_item[used] = _prompt_counts(counter.server or counter.local, [items[index] for index in used], reader.api)
        reader.input_tokens[lacking] = by_item[which[lacking]]
        reader.input_source[lacking] = counter.source
    if counter.local is not None:
        comparable = np.flatnonzero(first & (reader.input_source != UNKNOWN) & (reader.input_source != LOCAL))
        _, at = np.unique(which[comparable], return_index=True)
        rows = comparable[at[:CHECKED]]
        local = _prompt_counts(counter.local, [items[which[row]] for row in rows], reader.api)
        counter.tally.checked_inputs = list(zip(reader.input_tokens[rows].tolist(), local, strict=True))


def _prompt_counts(tokenizer: Tokenizer | None, items: Sequence[Item], api: ServedApi) -> list[int]:
    """Tokens of what the first request of each item says, without what a chat template adds."""
    if tokenizer is None or not items:
        return []
    texts = [item.turns[:1] if api.generates else item.turns for item in items]
    texts = [some if item.system is None else (item.system, *some) for item, some in zip(items, texts, strict=True)]
    counts = iter(tokenizer.count([text for some in texts for text in some]))
    return [sum(next(counts) for _ in some) for some in texts]


def _finished(reader: _Reader, items: Sequence[Item]) -> Rows:
    recording = reader.recording
    arrived = np.flatnonzero((reader.piece_events > 0) | (reader.piece_tokens > 0))
    owner = np.searchsorted(recording.pieces, arrived, side="right") - 1
    keep = reader.streamed[owner]
    arrived, owner = arrived[keep], owner[keep]
    first_ns, last_ns = np.zeros(len(recording), dtype=np.int64), np.zeros(len(recording), dtype=np.int64)
    first_tokens = np.zeros(len(recording), dtype=np.int32)
    last_ns[owner] = recording.piece_ns[arrived]  # the last of equal positions stays
    first_ns[owner[::-1]] = recording.piece_ns[arrived[::-1]]
    first_tokens[owner[::-1]] = reader.piece_tokens[arrived[::-1]]
    answer_ns = np.where(reader.reasoned, 0, first_ns)
    answered = np.flatnonzero(reader.answer_piece >= 0)
    answer_ns[answered] = recording.piece_ns[reader.answer_piece[answered]]
    which = recording.session % max(1, len(items))
    own: dict[str, Any] = {
        "first_ns": first_ns,
        "answer_ns": answer_ns,
        "last_ns": last_ns,
        "first_tokens": first_tokens,
        "asked_input": _lengths([item.input_tokens for item in items], which),
        "asked_output": _lengths([item.output_tokens for item in items], which),
        "finish_names": tuple(reader.finish_codes),
        "dims": frozenset(reader.dims),
        "tally": reader.counter.tally,
    }
    read = {name: value for name, value in vars(reader).items() if name in _COLUMNS}
    return Rows(**{**read, **own})


def _lengths(values: Sequence[int | None], which: NDArray[np.int64]) -> NDArray[np.int32]:
    if not values:
        return np.full(len(which), -1, dtype=np.int32)
    column = np.array([-1 if value is None else value for value in values], dtype=np.int32)
    return column[which]

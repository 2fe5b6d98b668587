"""Requests as bytes for the load loop, and how many of them a budget allows.

They are made before the clock runs, except the later turns of a conversation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import MeasureError
from assay.run.apis import ServedApi, wire_path
from assay.run.apis.readers import meaning_of, server_words
from assay.run.contract import Order
from assay.run.endpoint import ServedEndpoint
from assay.run.load.http.driver import HttpLoad, Repeat
from assay.run.load.http.loops import drive
from assay.run.load.http.origin import Origin
from assay.run.load.http.recording import OUTCOMES, LoadRecording
from assay.run.load.shape import ClosedShape, RateLevel
from assay.run.services import log_tail
from assay.run.targets.served.rows import Rows, read_rows
from assay.run.workloads import Item
from assay.spec.target import Price

# Requests that are made ahead; a workload of more items makes the others when they are due.
AHEAD = 20_000
AGENT = "assay"
# What a chat template adds to one message: role, separators, and a system prompt of its own.
_TEMPLATE_TOKENS = 64


class ApiSupply:
    """The items of a workload in the words of a protocol."""

    def __init__(self, items: Sequence[Item], api: ServedApi, origin: Origin, headers: Mapping[str, str]) -> None:
        self._items = items
        self._api = api
        self._origin = origin
        self._headers = headers
        self._talks: dict[int, list[str]] = {}
        # The turns of an embedding request are its texts, which go out together.
        self.conversations = api.generates and any(len(item.turns) > 1 for item in items)
        self._wires = [self._wire(item, 0, ()) for item in items[:AHEAD]]

    def first(self, session: int) -> bytes:
        index = session % len(self._items)
        if index < len(self._wires):
            return self._wires[index]
        return self._wire(self._items[index], 0, ())

    def then(self, session: int, turn: int, body: bytes) -> bytes | None:
        """The next turn of a conversation, with what the server really answered before."""
        item = self._items[session % len(self._items)]
        if turn + 1 >= len(item.turns):
            self._talks.pop(session, None)
            return None
        answers = self._talks.setdefault(session, [])
        answers.append(self._api.draft(body).text)
        return self._wire(item, turn + 1, answers)

    def _wire(self, item: Item, turn: int, answers: Sequence[str]) -> bytes:
        call = self._api.call(item, turn, answers)
        headers = _merged({"User-Agent": AGENT, "Accept": "*/*"}, call.headers, self._headers)
        try:
            return self._origin.request(call.method, wire_path(self._origin.path, call.path), headers, call.body)
        except UnicodeEncodeError:
            message = "a header has a character that HTTP cannot carry"
            try_ = "use plain letters; is the right variable in ${env:…}?"
            raise MeasureError(message, code="header", at="target.headers", try_=try_) from None


def _merged(*parts: Mapping[str, str]) -> dict[str, str]:
    """Headers of several parts; a later one wins over an earlier one, however either is spelt."""
    whole: dict[str, tuple[str, str]] = {}
    for part in parts:
        whole |= {name.lower(): (name, value) for name, value in part.items()}
    return dict(whole.values())


def request_bound(item: Item, price: Price, turn: int = 0) -> float:
    """The most that one request can cost.

    A token stands for at least one byte, so a text has no more tokens than bytes.
    """
    if item.output_tokens is None and price.output:
        message = "a budget needs workload.output_tokens: without it an answer may be of any length and price"
        try_ = "set workload.output_tokens, or remove the budget"
        raise MeasureError(message, code="budget", at="target.price.budget", try_=try_)
    output = item.output_tokens or 0
    return (price.input * _input_bound(item, turn, output) + price.output * output) / 1e6


def _input_bound(item: Item, turn: int, output: int) -> int:
    """The most input tokens of a turn: everything said before it goes in again."""
    texts = item.turns[: turn + 1]
    spoken = sum(len(text.encode()) for text in texts)
    if item.input_tokens is not None:  # the first turn was made of this many tokens
        spoken += min(0, item.input_tokens - len(texts[0].encode()))
    system = 0 if item.system is None else len(item.system.encode()) + _TEMPLATE_TOKENS
    return spoken + system + turn * output + (2 * turn + 1) * _TEMPLATE_TOKENS


def session_bound(item: Item, price: Price) -> float:
    return sum(request_bound(item, price, turn) for turn in range(len(item.turns)))


def requests_bound(item: Item, price: Price, *, conversation: bool = True) -> float:
    """The most that everything asked for one item can cost."""
    return session_bound(item, price) if conversation else _whole_bound(item, price)


def requests_within(budget: float, items: Sequence[Item], price: Price, *, conversation: bool = True) -> int:
    """How many sessions, from the first on, can be started without a chance of exceeding a budget.

    Args:
        conversation: Whether the texts of an item are turns, each a request; else they go in one request.
    """
    bounds = [requests_bound(item, price, conversation=conversation) for item in items]
    one_round = sum(bounds)
    if one_round <= 0:
        return 2**62  # nothing costs anything
    rounds = int(budget / one_round)
    left = budget - rounds * one_round
    count = rounds * len(items)
    for bound in bounds:
        if bound > left * (1 + 1e-12):
            break
        left -= bound
        count += 1
    if count == 0:
        message = (
            f"one request may cost {bounds[0]:.6g} {price.currency}, more than the budget leaves for it ({budget:.6g})"
        )
        try_ = "raise the budget, or ask for fewer output tokens"
        raise MeasureError(message, code="budget", at="target.price.budget", try_=try_)
    return count


def _whole_bound(item: Item, price: Price) -> float:
    """The most that one request with all texts of an item can cost; it has no answer to pay for."""
    spoken = sum(len(text.encode()) for text in item.turns)
    return price.input * (spoken + len(item.turns) * _TEMPLATE_TOKENS) / 1e6


TRIES = 3
_ONE_USER = ClosedShape((RateLevel(math.inf, 1, 1),))
_OUR_FAULT, _SERVER_FAULT = 400, 500
_TOO_MANY = 429
_MOST_WAIT_S = 30.0
_UNREACHED = frozenset({"refused", "unresolved", "tls", "proxy", "timeout"})


@dataclass(frozen=True, slots=True)
class FirstRequest:
    e2e_ms: float
    ttft_ms: float | None
    token_ns: int
    """When its first token came, 0 where that is not known."""


def first_timeout_s(order: Order, there: ServedEndpoint) -> float:
    """How long the first request is waited for."""
    return min(there.target.timeout, order.job.definition.measure.timeout / TRIES)


def first_request(order: Order, there: ServedEndpoint, supply: ApiSupply, api: ServedApi, session: int) -> FirstRequest:
    """Ask once and wait for the answer; try again where a failure may be chance.

    Args:
        session: which item; the last one, so that the load does not begin with what a cache has just seen.
    """
    wire = supply.first(session)
    for attempt in range(TRIES):
        load = HttpLoad(
            there.origin,
            _ONE_USER,
            Path(order.scratch),
            requests=1,
            timeout_s=first_timeout_s(order, there),
        )
        recording = drive(load, Repeat((wire,)))
        rows = read_rows(recording, api, ())
        if OUTCOMES[rows.outcome[0]] == "ok":
            token_ns = int(rows.first_ns[0]) or int(recording.first_ns[0])
            ttft_ms = (token_ns - int(recording.due_ns[0])) / 1e6 if rows.streamed[0] else None
            return FirstRequest((int(recording.end_ns[0]) - int(recording.due_ns[0])) / 1e6, ttft_ms, token_ns)
        if attempt + 1 == TRIES or _is_certain(recording, rows):
            raise _refused(there, recording, rows)
    raise AssertionError("unreachable")


def refuse_unreachable(order: Order, there: ServedEndpoint, api: ServedApi) -> None:
    """Tell a server that is not there from one that lacks something; any answer at all shows that it is there."""
    wire = there.origin.request("GET", there.origin.path or "/", dict(there.headers), b"")
    load = HttpLoad(
        there.origin, _ONE_USER, Path(order.scratch), requests=1, timeout_s=min(there.target.timeout, _MOST_WAIT_S)
    )
    recording = drive(load, Repeat((wire,)))
    if OUTCOMES[recording.outcome[0]] in _UNREACHED:
        raise _refused(there, recording, read_rows(recording, api, ()))


def _is_certain(recording: LoadRecording, rows: Rows) -> bool:
    """Whether asking again would only get the same answer: the request itself is refused."""
    status = int(recording.status[0])
    if OUTCOMES[rows.outcome[0]] in ("timeout", "tls", "redirect"):
        return True
    return OUTCOMES[rows.outcome[0]] == "status" and _OUR_FAULT <= status < _SERVER_FAULT and status != _TOO_MANY


def _refused(there: ServedEndpoint, recording: LoadRecording, rows: Rows) -> MeasureError:
    outcome = OUTCOMES[rows.outcome[0]]
    status = int(recording.status[0])
    body = bytes(recording.body_of(0))
    words = server_words(body) if outcome == "status" else recording.header_of(0, "problem") or ""
    words = words or next(iter(rows.words.values()), "")
    what = f"it answered {status}" if outcome == "status" else meaning_of(outcome)
    tail = log_tail(there.service)[-3:] if there.service is not None else ()
    logged = f"; the service wrote: {' | '.join(tail)}" if tail else ""
    message = f"the first request to {there.origin.authority} failed: {what}{f': {words}' if words else ''}{logged}"
    return MeasureError(message, code=f"endpoint-{outcome}", at=there.origin.authority, try_=_advice(outcome, status))


def _advice(outcome: str, status: int) -> str:
    if outcome == "refused":
        return "is the server running, and is the port right?"
    if outcome == "tls":
        return "give target.tls.ca the certificate to trust, or target.tls.verify: false for a server of your own"
    if status in (401, 403):
        return 'send the key: target.headers: {Authorization: "Bearer ${env:MY_KEY}"}'
    if status == 404:
        return "check target.model and the path of target.endpoint"
    if status == 400:
        return "the server's words say what it does not take; target.options sets fields of the request"
    if outcome == "content":
        return "does target.api name the protocol that this server speaks?"
    return "ask the server by hand, with curl; raise target.timeout where it is only slow"

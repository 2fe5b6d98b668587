"""Requests as bytes for the load loop, and how many of them a budget allows.

They are made before the clock runs, except the later turns of a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.errors import MeasureError
from assay.run.apis import ServedApi, wire_path
from assay.run.load.http.origin import Origin
from assay.run.workloads.records import Item
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
        """The request that opens a session."""
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
        answers.append(self._api.read(body).text)
        return self._wire(item, turn + 1, answers)

    def _wire(self, item: Item, turn: int, answers: Sequence[str]) -> bytes:
        call = self._api.call(item, turn, answers)
        headers = _merged({"User-Agent": AGENT, "Accept": "*/*"}, call.headers, self._headers)
        try:
            return self._origin.request(call.method, wire_path(self._origin.path, call.path), headers, call.body)
        except UnicodeEncodeError:
            raise MeasureError(
                "a header has a character that HTTP cannot carry",
                code="header",
                at="target.headers",
                try_="use plain letters; is the right variable in ${env:…}?",
            ) from None


def _merged(*parts: Mapping[str, str]) -> dict[str, str]:
    """Headers of several parts; a later one wins over an earlier one, however either is spelt."""
    whole: dict[str, tuple[str, str]] = {}
    for part in parts:
        whole |= {name.lower(): (name, value) for name, value in part.items()}
    return dict(whole.values())


def request_bound(item: Item, price: Price, turn: int = 0) -> float:
    """The most that one request can cost.

    A token stands for at least one byte, so a text has no more tokens than bytes.

    Raises:
        MeasureError: if the length of the answer has no limit.
    """
    if item.output_tokens is None and price.output:
        raise MeasureError(
            "a budget needs workload.output_tokens: without it an answer may be of any length and price",
            code="budget",
            at="target.price.budget",
            try_="set workload.output_tokens, or remove the budget",
        )
    output = item.output_tokens or 0
    return (price.input * _input_bound(item, turn, output) + price.output * output) / 1e6


def _input_bound(item: Item, turn: int, output: int) -> int:
    """The most input tokens of a turn: everything said before it goes in again."""
    texts = item.turns[: turn + 1]
    spoken = sum(len(text.encode()) for text in texts)
    if item.input_tokens is not None:  # the first turn was made of so many tokens
        spoken += min(0, item.input_tokens - len(texts[0].encode()))
    system = 0 if item.system is None else len(item.system.encode()) + _TEMPLATE_TOKENS
    return spoken + system + turn * output + (2 * turn + 1) * _TEMPLATE_TOKENS


def session_bound(item: Item, price: Price) -> float:
    """The most that all turns of an item can cost."""
    return sum(request_bound(item, price, turn) for turn in range(len(item.turns)))


def requests_bound(item: Item, price: Price, *, conversation: bool = True) -> float:
    """The most that everything asked for one item can cost."""
    return session_bound(item, price) if conversation else _whole_bound(item, price)


def requests_within(budget: float, items: Sequence[Item], price: Price, *, conversation: bool = True) -> int:
    """How many sessions, from the first on, can be started without a chance of exceeding a budget.

    Args:
        conversation: Whether the texts of an item are turns, each a request; else they go in one request.

    Raises:
        MeasureError: if not even the first fits, or the length of an answer has no limit.
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
        raise MeasureError(
            f"one request may cost {bounds[0]:.6g} {price.currency}, more than the budget leaves for it ({budget:.6g})",
            code="budget",
            at="target.price.budget",
            try_="raise the budget, or ask for fewer output tokens",
        )
    return count


def _whole_bound(item: Item, price: Price) -> float:
    """The most that one request with all texts of an item can cost; it has no answer to pay for."""
    spoken = sum(len(text.encode()) for text in item.turns)
    return price.input * (spoken + len(item.turns) * _TEMPLATE_TOKENS) / 1e6

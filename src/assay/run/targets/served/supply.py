"""Requests as bytes for the load loop: made before the clock runs, except the later turns of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.errors import MeasureError
from assay.run.apis import Api, wire_path
from assay.run.load.http.origin import Origin
from assay.run.workloads import Item

# Requests that are made ahead; a workload of more items makes the others when they are due.
AHEAD = 20_000
AGENT = "assay"


class ApiSupply:
    """The items of a workload in the words of a protocol."""

    def __init__(self, items: Sequence[Item], api: Api, origin: Origin, headers: Mapping[str, str]) -> None:
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

"""The seam between a served target and the protocol it speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.run.targets.served.answers import Answer, Draft
from assay.run.targets.served.reading import Take
from assay.run.workloads.records import Item


@dataclass(frozen=True, slots=True)
class Call:
    """One request, before it is put on the wire."""

    method: str
    path: str
    """Relative to the endpoint's URL; `wire_path` puts the two together."""
    headers: Mapping[str, str]
    """The protocol's and the user's; secrets are still references."""
    body: bytes


class Api(Protocol):
    """How things are said over the wire, and how answers are read back."""

    name: str
    streams: bool
    """Whether answers are asked for token by token."""
    generates: bool
    """Whether answers are made of tokens."""
    counts_input: bool
    """Whether prompts are made of tokens."""
    take: Take | None
    """Reads one event of a stream of server-sent events; None where answers are no such streams."""

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        """The request for one turn of an item, after the server's answers to the turns before."""
        ...

    def draft(self, body: bytes) -> Draft:
        """Read an answer without regard to its pieces; the quicker half of `read`."""
        ...

    def read(self, body: bytes | memoryview, piece_ends: NDArray[np.int64] | None = None) -> Answer:
        """Read an answer; with where its pieces end, also count the events of each piece."""
        ...

"""OpenAI's embeddings: texts go in, vectors come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from assay.run.targets.served.answers import Answer, Draft
from assay.run.targets.served.apis.bodies import headers_of, merged, model_of
from assay.run.targets.served.apis.contract import Call
from assay.run.targets.served.reading import Take, read_document, usage_of
from assay.run.workloads.records import Item
from assay.spec.target import Served

_FLOAT_BYTES = 4


class OpenAiEmbeddings:
    """`/v1/embeddings`."""

    name = "openai-embeddings"
    streams = False
    generates = False
    counts_input = True
    take: Take | None = None

    def __init__(self, target: Served, seed: int) -> None:  # noqa: ARG002  (nothing is drawn)
        self._path = target.path or "/v1/embeddings"
        self._fields = merged({"model": model_of(target)}, target.options)
        self._headers = headers_of(target, "application/json")

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:  # noqa: ARG002  (no conversation)
        """All texts of the item in one request."""
        return Call("POST", self._path, self._headers, to_json({"input": list(item.turns), **self._fields}))

    def draft(self, body: bytes) -> Draft:
        """Count the vectors."""
        return read_document(body, _take)

    def read(self, body: bytes | memoryview, piece_ends: NDArray[np.int64] | None = None) -> Answer:
        """Count the vectors."""
        return self.draft(bytes(body)).answer(piece_ends)


def _take(draft: Draft, event: Mapping[str, Any], end: int) -> None:  # noqa: ARG001
    vectors = event["data"]
    first = vectors[0]["embedding"] if vectors else []
    draft.vectors = len(vectors)
    draft.dims = len(first) if isinstance(first, list) else len(first) * 3 // 4 // _FLOAT_BYTES  # base64
    draft.done = True
    if (usage := event.get("usage")) is not None:
        draft.usage = usage_of(usage)
    if draft.dims == 0:
        draft.blame("shape", "the answer has no vector in it")

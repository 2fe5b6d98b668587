"""Any JSON API: the user writes the body, the workload fills its placeholders, an answer is one thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import JsonValue
from pydantic_core import to_json

from assay.errors import MeasureError
from assay.run.apis.answers import TEXT, AnswerDraft
from assay.run.apis.bodies import OUTPUT_TOKENS, PROMPT, filled, headers_of, merged
from assay.run.apis.contract import Call, ServedApi
from assay.spec.target import Served

if TYPE_CHECKING:
    from assay.run.workloads.records import Item


class PlainHttp(ServedApi):
    """A request of the user's own making."""

    needs_model = False
    generates = False
    counts_input = False

    def __init__(self, target: Served, seed: int) -> None:  # noqa: ARG002  (the user's body says it)
        if target.method != "GET" and target.body is None:
            raise MeasureError(
                f"api: http sends a {target.method} request, and target.body is missing",
                code="target",
                at="target.body",
                try_="write the JSON body with $prompt where the prompt goes, or set method: GET",
            )
        if target.options and target.body is not None and not isinstance(target.body, dict):
            raise MeasureError(
                "target.options are fields of a JSON object, and target.body is not one",
                code="target",
                at="target.options",
                try_="write the whole body under target.body",
            )
        self._method = target.method
        self._path = target.path or "/"
        self._body: JsonValue = merged(target.body, target.options) if isinstance(target.body, dict) else target.body
        self._headers = headers_of(target, "application/json")

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:  # noqa: ARG002  (no conversation)
        """The body and the path with this turn's values."""
        values: dict[str, JsonValue] = {PROMPT: item.turns[turn], OUTPUT_TOKENS: item.output_tokens}
        path = filled(self._path, {**values, PROMPT: quote(item.turns[turn], safe="")})
        body = b"" if self._body is None else to_json(filled(self._body, values))
        return Call(self._method, str(path), self._headers, body)

    def draft(self, body: bytes) -> AnswerDraft:
        """Keep the answer as text; its form is the server's own."""
        draft = AnswerDraft(streamed=False)
        draft.done = True
        draft.said[TEXT].append(body.decode("utf-8", "replace"))
        return draft

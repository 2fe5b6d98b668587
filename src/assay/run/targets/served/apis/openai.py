"""What OpenAI's chat and completions APIs share, as the many servers that follow them speak it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from pydantic_core import to_json

from assay.run.targets.served.answers import REASONING, TEXT, TOOL, Answer, Draft
from assay.run.targets.served.apis.bodies import OUTPUT_TOKENS, filled, has_placeholder, headers_of, merged, model_of
from assay.run.targets.served.apis.contract import Call
from assay.run.targets.served.reading import Take, is_document, read_document, read_events, usage_of
from assay.spec.target import Served

# Keys of a delta whose string carries tokens, with their channel. `reasoning_content` is what vLLM, SGLang and
# llama.cpp say, `reasoning` what newer vLLM and OpenRouter do.
STRINGS = {"content": TEXT, "reasoning_content": REASONING, "reasoning": REASONING, "refusal": TEXT, "text": TEXT}
KEYS = {name: re.compile(rb'"%b"\s*:\s*"' % name.encode()) for name in STRINGS}


class OpenAiText:
    """Builds greedy, seeded, streamed requests and reads their answers."""

    generates = True
    counts_input = True

    def __init__(self, target: Served, seed: int, name: str, path: str, take: Take) -> None:
        self.name = name
        self._path = target.path or path
        ours: dict[str, JsonValue] = {"model": model_of(target), "temperature": 0, "seed": seed}
        if target.stream:
            ours |= {"stream": True, "stream_options": {"include_usage": True}}
        # Servers that want the newer name refuse the older one beside it.
        if not target.options.get("max_completion_tokens"):
            ours["max_tokens"] = OUTPUT_TOKENS
        self._fields = merged(ours, target.options)
        self._varies = has_placeholder(self._fields, OUTPUT_TOKENS)
        self.streams = self._fields.get("stream") is True
        if not self.streams:
            self._fields.pop("stream_options", None)
        self._headers = headers_of(target, "text/event-stream" if self.streams else "application/json")
        self.take: Take | None = take
        self._take = take

    def request(self, fields: Mapping[str, JsonValue], output_tokens: int | None) -> Call:
        given = dict(self._fields)
        if output_tokens is None and given.get("max_tokens") == OUTPUT_TOKENS:
            del given["max_tokens"]  # the server's own default
        body: JsonValue = given if not self._varies else filled(given, {OUTPUT_TOKENS: output_tokens})
        # What the user gave in place of the workload's own text is not ours to replace.
        return Call("POST", self._path, self._headers, to_json({**fields, **body}))  # type: ignore[dict-item]

    def draft(self, body: bytes) -> Draft:
        """Read an answer, streamed or not, as the server chose to send it."""
        return read_document(body, self._take) if is_document(body) else read_events(body, self._take)

    def read(self, body: bytes | memoryview, piece_ends: NDArray[np.int64] | None = None) -> Answer:
        """Read an answer, and count the events of its pieces."""
        return self.draft(bytes(body)).answer(piece_ends)


def take_frame_of(draft: Draft, event: Mapping[str, Any]) -> list[Any]:
    """Keep what stands around the choices, and give the choices.

    Raises:
        ValueError: if there is neither a choice nor a count in it.
    """
    if (usage := event.get("usage")) is not None:
        draft.usage = usage_of(usage)
    if draft.id is None and isinstance(known := event.get("id"), str):
        draft.id = known
    choices = event.get("choices")
    if choices is None and usage is None:
        raise ValueError("neither choices nor usage")
    return choices or []


def take_tools(draft: Draft, delta: Mapping[str, Any], end: int) -> bool:
    """Keep the text of tool calls; they are tokens too."""
    calls = [call.get("function") or {} for call in delta.get("tool_calls") or ()]
    if delta.get("function_call"):
        calls.append(delta["function_call"])
    said = "".join((call.get("name") or "") + (call.get("arguments") or "") for call in calls)
    if said:
        draft.say(TOOL, said, end)
    return bool(said)

"""Ollama's own chat API: one JSON document per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue
from pydantic_core import to_json

from assay.run.apis.answers import REASONING, TEXT, AnswerDraft, Usage
from assay.run.apis.bodies import OUTPUT_TOKENS, filled, headers_of, merged, messages_of, model_of
from assay.run.apis.contract import Call, ServedApi
from assay.run.apis.openai import take_tools
from assay.run.apis.readers import count_of, read_document, read_lines
from assay.spec.target import Served

if TYPE_CHECKING:
    from assay.run.workloads.records import Item

# Ollama ignores fields it does not know without a word, so what is not one of these is an option of the model.
_FIELDS = frozenset({"model", "messages", "tools", "format", "options", "stream", "keep_alive", "think", "template"})


class OllamaApi(ServedApi):
    """`/api/chat`."""

    def __init__(self, target: Served, seed: int) -> None:
        self._path = target.path or "/api/chat"
        theirs: dict[str, JsonValue] = {name: value for name, value in target.options.items() if name in _FIELDS}
        loose: dict[str, JsonValue] = {name: value for name, value in target.options.items() if name not in _FIELDS}
        ours: dict[str, JsonValue] = {
            "model": model_of(target),
            "stream": target.stream,
            "options": {"temperature": 0, "seed": seed, "num_predict": OUTPUT_TOKENS},
        }
        self._fields = merged(merged(ours, theirs), {"options": loose} if loose else {})
        self.streams = self._fields.get("stream") is not False  # left out, Ollama streams
        self._headers = headers_of(target, "application/x-ndjson" if self.streams else "application/json")

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        fields = self._fields
        options = fields.get("options")
        if item.output_tokens is None and isinstance(options, dict) and options.get("num_predict") == OUTPUT_TOKENS:
            fields = merged(fields, {"options": {"num_predict": None}})
        whole = filled(fields, {OUTPUT_TOKENS: item.output_tokens})
        messages = {"messages": messages_of(item, turn, list(answers))}
        return Call("POST", self._path, self._headers, to_json({**messages, **whole}))  # type: ignore[dict-item]

    def draft(self, body: bytes) -> AnswerDraft:
        """Read the lines, or the one document where nothing was streamed."""
        return read_lines(body, take_line) if self.streams else read_document(body, take_line)

    @classmethod
    def warm_request(cls, target: Served) -> tuple[str, dict[str, JsonValue]]:
        """Without a prompt it only loads the model."""
        kept = {name: target.options[name] for name in ("keep_alive",) if name in target.options}
        return "/api/generate", {"model": target.options.get("model", target.model), "stream": False, **kept}


def take_line(draft: AnswerDraft, event: Mapping[str, Any], end: int) -> None:
    """Read one line of a stream, or a whole answer."""
    message = event.get("message")
    if message is None and "done" not in event:
        raise ValueError("neither message nor done")
    message = message or {}
    said = False
    for name, channel in (("thinking", REASONING), ("content", TEXT)):
        if text := message.get(name):
            draft.say(channel, text, end)
            said = True
    said |= _take_tools(draft, message, end)
    if event.get("done"):
        draft.done = True
        draft.finish = str(event.get("done_reason") or "stop")
        # A prompt that is wholly cached has no count in older versions; that is unknown, not zero.
        draft.usage = Usage(count_of(event.get("prompt_eval_count")) or None, count_of(event.get("eval_count")))
        if not said:
            draft.finish_end = end
    elif not said and message.get("content") == "":
        draft.blanks.append(end)


def _take_tools(draft: AnswerDraft, message: Mapping[str, Any], end: int) -> bool:
    """Keep tool calls, whose arguments Ollama gives as an object."""
    calls = [
        {"function": {"name": call["function"].get("name"), "arguments": _as_text(call["function"].get("arguments"))}}
        for call in message.get("tool_calls") or ()
    ]
    return bool(calls) and take_tools(draft, {"tool_calls": calls}, end)


def _as_text(arguments: Any) -> str:  # noqa: ANN401
    return arguments if isinstance(arguments, str) else to_json(arguments).decode()

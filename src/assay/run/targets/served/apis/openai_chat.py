"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.run.targets.served.answers import REASONING, TEXT, Draft
from assay.run.targets.served.apis.bodies import messages_of
from assay.run.targets.served.apis.contract import Call
from assay.run.targets.served.apis.openai import KEYS, STRINGS, OpenAiText, take_frame_of, take_tools
from assay.run.targets.served.reading import Plain
from assay.run.workloads.records import Item
from assay.spec.target import Served

_SPOKEN = ("content", "reasoning_content", "reasoning", "refusal")


class OpenAiChat(OpenAiText):
    """`/v1/chat/completions`."""

    def __init__(self, target: Served, seed: int) -> None:
        super().__init__(target, seed, "openai-chat", "/v1/chat/completions", take_chat)

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        return self.request({"messages": messages_of(item, turn, list(answers))}, item.output_tokens)


def take_chat(draft: Draft, event: Mapping[str, Any], end: int) -> Plain | None:
    """Read one chunk of a stream, or a whole answer."""
    plain = None
    choices = take_frame_of(draft, event)
    for choice in choices:
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        said, plain = _take_delta(draft, delta, end)
        finish = choice.get("finish_reason")
        if finish is not None:
            draft.finish = str(finish)
            plain = None
            if not said:
                draft.finish_end = end
        elif not said and delta.get("content") == "" and (draft.ends or "role" not in delta):
            draft.blanks.append(end)
    return plain if len(choices) == 1 else None


def _take_delta(draft: Draft, delta: Mapping[str, Any], end: int) -> tuple[bool, Plain | None]:
    """Keep what a delta says; tell whether it says anything, and its string where it has one alone."""
    strings = [(name, delta[name]) for name in _SPOKEN if delta.get(name)]
    if len(strings) == 1 and isinstance(strings[0][1], str) and not delta.get("tool_calls"):
        name, text = strings[0]
        draft.say(STRINGS[name], text, end)
        return True, Plain(KEYS[name], STRINGS[name], text)
    said = False
    for name, text in strings:
        if isinstance(text, list):
            said |= _take_parts(draft, text, end)
        elif name != "reasoning" or text != delta.get("reasoning_content"):  # some say it under both names
            draft.say(STRINGS[name], text, end)
            said = True
    if delta.get("tool_calls") or delta.get("function_call"):
        said |= take_tools(draft, delta, end)
    return said, None


def _take_parts(draft: Draft, parts: Sequence[Mapping[str, Any]], end: int) -> bool:
    """Keep content that is a list of typed parts, thinking among them."""
    said = False
    for part in parts:
        thinking = part.get("thinking")
        texts = thinking if isinstance(thinking, list) else [{"text": thinking or part.get("text")}]
        if text := "".join(one.get("text") or "" for one in texts):
            draft.say(REASONING if thinking else TEXT, text, end)
            said = True
    return said

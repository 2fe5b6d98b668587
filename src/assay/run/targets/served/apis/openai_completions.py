"""OpenAI's completions: a text goes in, its continuation comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.run.targets.served.answers import TEXT, Draft
from assay.run.targets.served.apis.contract import Call
from assay.run.targets.served.apis.openai import KEYS, OpenAiText, take_frame_of
from assay.run.targets.served.reading import Plain
from assay.run.workloads.records import Item
from assay.spec.target import Served


class OpenAiCompletions(OpenAiText):
    """`/v1/completions`."""

    def __init__(self, target: Served, seed: int) -> None:
        super().__init__(target, seed, "openai-completions", "/v1/completions", take_completion)

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        """The text up to this turn; there are no roles, so turns and answers simply follow one another."""
        told = [] if item.system is None else [item.system]
        for number in range(turn):
            told += [item.turns[number], answers[number]]
        return self.request({"prompt": "\n\n".join([*told, item.turns[turn]])}, item.output_tokens)


def take_completion(draft: Draft, event: Mapping[str, Any], end: int) -> Plain | None:
    """Read one chunk of a stream, or a whole answer."""
    plain = None
    choices = take_frame_of(draft, event)
    for choice in choices:
        text = choice.get("text")
        finish = choice.get("finish_reason")
        if text:
            draft.say(TEXT, text, end)
        if finish is not None:
            draft.finish = str(finish)
            if not text:
                draft.finish_end = end
        elif text:
            plain = Plain(KEYS["text"], TEXT, text)
        elif text == "":
            draft.blanks.append(end)
    return plain if len(choices) == 1 else None

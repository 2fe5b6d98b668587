"""Reads requests: texts, their tokens, and limits."""

from __future__ import annotations

from typing import Any

from assay.sim.apis.words import Words, count
from assay.sim.wire.problem import HttpError


def chat_texts(ask: dict[str, Any]) -> list[str]:
    """The text of each message of a chat.

    Raises:
        HttpError: if there is none.
    """
    messages = ask.get("messages")
    if not isinstance(messages, list) or not messages:
        raise HttpError(400, "messages is not a list with at least one message")
    return [_text(message) for message in messages]


def _text(message: object) -> str:
    if not isinstance(message, dict):
        raise HttpError(400, "a message is not an object")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise HttpError(400, "the content of a message is neither a text nor a list of parts")
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return " ".join(text for text in texts if isinstance(text, str))


def one_prompt(ask: dict[str, Any]) -> object:
    """The prompt of a completion; more than one in a request is refused."""
    prompt = ask.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        return prompt[0]
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        raise HttpError(400, f"one prompt a request is served here, this has {len(prompt)}")
    return prompt


def prompt_tokens(prompt: object) -> int:
    """How many tokens a prompt has: the words of a text, or its numbers."""
    if isinstance(prompt, str):
        return count(prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return len(prompt)
    raise HttpError(400, "the prompt is neither a text nor a list of tokens")


def texts_of(value: object, words: Words) -> list[str]:
    """The texts of an embedding request: one text, several, or their tokens.

    Raises:
        HttpError: if it is none of these.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(one, str) for one in value):
            return value
        rows = value if isinstance(value[0], list) else [value]
        try:
            return [words.decode(row) for row in rows]
        except (IndexError, TypeError):
            raise HttpError(400, "a token is not one of this server's") from None
    raise HttpError(400, "input is neither a text nor a list of texts")


def limit(ask: dict[str, Any], *names: str) -> int | None:
    """A bound of a request: the first of some keys that has one.

    Raises:
        HttpError: if it is not a whole number of 1 or more.
    """
    for name in names:
        value = ask.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != -1):
                raise HttpError(400, f"{name} is {value!r}, not a whole number of 1 or more")
            return None if value == -1 else value
    return None

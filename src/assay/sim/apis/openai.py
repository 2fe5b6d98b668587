"""How OpenAI's API tells an answer: chats, completions, embeddings, models."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from assay.sim.apis.schedule import EVENTS, ReplyPlan, ReplyTimes, packed
from assay.sim.reply import NUMBER_MARK
from assay.sim.wire.request_head import HttpError

_KEPT_ENDINGS = 4096
_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"
}  # fmt: skip


class _OpenAI:
    """What chats and completions have in common."""

    kind = EVENTS

    def __init__(self, model: str, created: int, *, done: bool) -> None:
        self._model, self._created, self._done = model, created, done
        self._endings: dict[ReplyPlan, list[bytes]] = {}

    def _object(self, prefix: str, kind: str, choice: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"{prefix}-{NUMBER_MARK.decode()}",
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": [{"index": 0, **choice}],
        }

    def error(self, problem: HttpError) -> bytes:
        """What is said when there is no answer."""
        return packed(_error(problem))

    def error_event(self, problem: HttpError) -> bytes:
        """The same inside a stream."""
        return _event(_error(problem))

    def broken_event(self) -> bytes:
        return b'data: {"choices":[{"delta":\n\n'

    def _keep_ending(self, plan: ReplyPlan, last: dict[str, Any], reasoning: int) -> list[bytes]:
        """Plans repeat, so that the events after the last token are kept."""
        events = [_event(last)]
        if plan.usage:
            events.append(_event({**last, "choices": [], "usage": usage(plan, reasoning)}))
        if self._done:
            events.append(b"data: [DONE]\n\n")
        if len(self._endings) >= _KEPT_ENDINGS:
            self._endings.clear()
        self._endings[plan] = events
        return events


class Chat(_OpenAI):
    """`/v1/chat/completions`."""

    name = "chat"

    def __init__(self, model: str, created: int, *, done: bool, reasoning_field: str, reasoning_tokens: int) -> None:
        super().__init__(model, created, done=done)
        self._field, self._reasoning = reasoning_field, reasoning_tokens

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        return self._object("chatcmpl", "chat.completion.chunk", {"delta": delta, "finish_reason": reason})

    def opening(self) -> bytes:
        """The role alone."""
        return _event(self._chunk({"role": "assistant", "content": ""}))

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:
        """Some tokens."""
        role = {"role": "assistant"} if first else {}
        return _event(self._chunk({**role, self._field if reasoning else "content": text}))

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]:  # noqa: ARG002  (Dialect's signature)
        """The finish reason, the counts, and that it is done."""
        return self._endings.get(plan) or self._keep_ending(plan, self._chunk({}, plan.reason), self._reasoning)

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes:  # noqa: ARG002
        message = {"role": "assistant", "content": answer, **({self._field: reasoning} if reasoning else {})}
        told = self._object("chatcmpl", "chat.completion", {"message": message, "finish_reason": plan.reason})
        return packed({**told, **({"usage": usage(plan, self._reasoning)} if plan.usage else {})})


class Completions(_OpenAI):
    """`/v1/completions`."""

    name = "completions"

    def _text(self, text: str, reason: str | None = None) -> dict[str, Any]:
        return self._object("cmpl", "text_completion", {"text": text, "logprobs": None, "finish_reason": reason})

    def opening(self) -> None:
        return

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:  # noqa: ARG002  (Dialect's signature)
        """Some tokens; this API does not tell reasoning apart."""
        return _event(self._text(text))

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]:  # noqa: ARG002
        """The finish reason, the counts, and that it is done."""
        return self._endings.get(plan) or self._keep_ending(plan, self._text("", plan.reason), 0)

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes:  # noqa: ARG002
        told = self._text(" ".join(part for part in (reasoning, answer) if part), plan.reason)
        return packed({**told, **({"usage": usage(plan, 0)} if plan.usage else {})})


def usage(plan: ReplyPlan, reasoning_tokens: int) -> dict[str, object]:
    """The token counts of an answer."""
    counts: dict[str, object] = {
        "prompt_tokens": plan.prompt_tokens,
        "completion_tokens": plan.tokens,
        "total_tokens": plan.prompt_tokens + plan.tokens,
    }
    if reasoning_tokens:
        counts["completion_tokens_details"] = {"reasoning_tokens": min(reasoning_tokens, plan.tokens)}
    return counts


def embeddings(model: str, vectors: Sequence[Sequence[float]], tokens: int | None, *, as_base64: bool) -> bytes:
    """The answer of `/v1/embeddings`."""
    rows = [
        {"object": "embedding", "index": at, "embedding": _base64(vector) if as_base64 else vector}
        for at, vector in enumerate(vectors)
    ]
    counts = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return packed({"object": "list", "data": rows, "model": model, **counts})


def models(model: str, created: int, context: int | None) -> bytes:
    """The answer of `/v1/models`."""
    one = {"id": model, "object": "model", "created": created, "owned_by": "assay", "max_model_len": context}
    return packed({"object": "list", "data": [one]})


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _event(value: object) -> bytes:
    return b"data: " + packed(value) + b"\n\n"


def _error(problem: HttpError) -> dict[str, object]:
    kind = _TYPES.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    return {"error": {"message": problem.message, "type": kind, "param": None, "code": problem.code}}

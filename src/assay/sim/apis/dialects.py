"""How OpenAI's and Ollama's APIs tell an answer: chats, completions, embeddings, models."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from assay.sim.apis.schedule import EVENTS, LINES, ReplyPlan, ReplyTimes, packed
from assay.sim.wire.connection import HttpError
from assay.sim.world import NUMBER_MARK

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
        return packed(_error(problem))

    def error_event(self, problem: HttpError) -> bytes:
        return _sse(_error(problem))

    def broken_event(self) -> bytes:
        return b'data: {"choices":[{"delta":\n\n'

    def _keep_ending(self, plan: ReplyPlan, last: dict[str, Any], reasoning: int) -> list[bytes]:
        """Plans repeat, so that the events after the last token are kept."""
        events = [_sse(last)]
        if plan.usage:
            events.append(_sse({**last, "choices": [], "usage": usage(plan, reasoning)}))
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
        return _sse(self._chunk({"role": "assistant", "content": ""}))

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:
        role = {"role": "assistant"} if first else {}
        return _sse(self._chunk({**role, self._field if reasoning else "content": text}))

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]:  # noqa: ARG002  (Dialect's signature)
        return self._endings.get(plan) or self._keep_ending(plan, self._chunk({}, plan.reason), self._reasoning)

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes:  # noqa: ARG002
        message = {"role": "assistant", "content": answer, **({self._field: reasoning} if reasoning else {})}
        body = self._object("chatcmpl", "chat.completion", {"message": message, "finish_reason": plan.reason})
        return packed({**body, **({"usage": usage(plan, self._reasoning)} if plan.usage else {})})


class Completions(_OpenAI):
    """`/v1/completions`."""

    name = "completions"

    def _text(self, text: str, reason: str | None = None) -> dict[str, Any]:
        return self._object("cmpl", "text_completion", {"text": text, "logprobs": None, "finish_reason": reason})

    def opening(self) -> None:
        return

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:  # noqa: ARG002  (Dialect's signature)
        return _sse(self._text(text))

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]:  # noqa: ARG002
        return self._endings.get(plan) or self._keep_ending(plan, self._text("", plan.reason), 0)

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes:  # noqa: ARG002
        body = self._text(" ".join(part for part in (reasoning, answer) if part), plan.reason)
        return packed({**body, **({"usage": usage(plan, 0)} if plan.usage else {})})


def usage(plan: ReplyPlan, reasoning_tokens: int) -> dict[str, object]:
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
    entry = {"id": model, "object": "model", "created": created, "owned_by": "assay", "max_model_len": context}
    return packed({"object": "list", "data": [entry]})


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _sse(value: object) -> bytes:
    return b"data: " + packed(value) + b"\n\n"


def _error(problem: HttpError) -> dict[str, object]:
    kind = _TYPES.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    return {"error": {"message": problem.message, "type": kind, "param": None, "code": problem.code}}


class OllamaDialect:
    """`/api/chat` and `/api/generate`."""

    kind = LINES

    def __init__(self, model: str, created: str, *, chat: bool) -> None:
        self.name = "ollama-chat" if chat else "ollama-generate"
        self._model, self._created, self._chat = model, created, chat

    def opening(self) -> None:
        return

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:  # noqa: ARG002  (Dialect's signature)
        return self._line("" if reasoning else text, text if reasoning else "", {"done": False})

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]:
        return [self._line("", "", _sums(plan, times))]

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes:
        return self._line(answer, reasoning, _sums(plan, times)).rstrip()

    def error(self, problem: HttpError) -> bytes:
        return packed({"error": problem.message})

    def error_event(self, problem: HttpError) -> bytes:
        return self.error(problem) + b"\n"

    def broken_event(self) -> bytes:
        return b'{"message":{"content":\n'

    def _line(self, text: str, thinking: str, more: dict[str, object]) -> bytes:
        content: dict[str, object]
        if self._chat:
            message = {"role": "assistant", "content": text, **({"thinking": thinking} if thinking else {})}
            content = {"message": message}
        else:
            content = {"response": text, **({"thinking": thinking} if thinking else {})}
        return packed({"model": self._model, "created_at": self._created, **content, **more}) + b"\n"


def _sums(plan: ReplyPlan, times: ReplyTimes) -> dict[str, object]:
    ended: dict[str, object] = {"done": True, "done_reason": plan.reason}
    if not plan.usage:
        return ended
    return ended | {
        "total_duration": times.last_ns - times.arrival_ns,
        "load_duration": 0,
        "prompt_eval_count": plan.prompt_tokens,
        "prompt_eval_duration": times.first_ns - times.arrival_ns,
        "eval_count": plan.tokens,
        "eval_duration": times.last_ns - times.first_ns,
    }


def embed(model: str, vectors: Sequence[Sequence[float]], tokens: int | None) -> bytes:
    """The answer of `/api/embed`."""
    counts = {} if tokens is None else {"prompt_eval_count": tokens}
    return packed({"model": model, "embeddings": vectors, **counts})


def tags(model: str, created: str) -> bytes:
    """The answer of `/api/tags`."""
    details = {
        "format": "sim",
        "family": "sim",
        "families": ["sim"],
        "parameter_size": "0",
        "quantization_level": "none",
    }
    entry = {"name": model, "model": model, "modified_at": created, "size": 0, "digest": "0" * 64, "details": details}
    return packed({"models": [entry]})

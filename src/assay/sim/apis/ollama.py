"""How Ollama's API tells an answer: lines of JSON, with times in nanoseconds in the last one."""

from __future__ import annotations

from collections.abc import Sequence

from assay.sim.apis.schedule import LINES, ReplyPlan, ReplyTimes, packed
from assay.sim.wire.request_head import HttpError


class OllamaDialect:
    """`/api/chat` and `/api/generate`."""

    kind = LINES

    def __init__(self, model: str, created: str, *, chat: bool) -> None:
        self.name = "ollama-chat" if chat else "ollama-generate"
        self._model, self._created, self._chat = model, created, chat

    def opening(self) -> None:
        """There is no event without text."""
        return

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:  # noqa: ARG002  (Dialect's signature)
        """Some tokens."""
        return self._line("" if reasoning else text, text if reasoning else "", {"done": False})

    def ending(self, plan: ReplyPlan, times: ReplyTimes) -> list[bytes]:
        """The line with the reason, the counts and the times."""
        return [self._line("", "", _sums(plan, times))]

    def whole(self, plan: ReplyPlan, reasoning: str, answer: str, times: ReplyTimes) -> bytes:
        return self._line(answer, reasoning, _sums(plan, times)).rstrip()

    def error(self, problem: HttpError) -> bytes:
        """What is said when there is no answer."""
        return packed({"error": problem.message})

    def error_event(self, problem: HttpError) -> bytes:
        """The same inside a stream."""
        return self.error(problem) + b"\n"

    def broken_event(self) -> bytes:
        """A line that is not JSON."""
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
    one = {"name": model, "model": model, "modified_at": created, "size": 0, "digest": "0" * 64, "details": details}
    return packed({"models": [one]})

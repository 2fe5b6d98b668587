"""OpenAI's chat completions, completions and embeddings, as the many servers that follow them speak them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from pydantic import JsonValue
from pydantic_core import to_json

from assay.errors import MeasureError
from assay.run.apis.answers import REASONING, TEXT, TOOL, AnswerDraft, Usage
from assay.run.apis.contract import (
    OUTPUT_TOKENS,
    PROMPT,
    Call,
    ServedApi,
    filled,
    has_placeholder,
    headers_of,
    merged,
    messages_of,
    model_of,
)
from assay.run.apis.readers import Plain, Take, count_of, is_document, read_document, read_events, read_lines, usage_of
from assay.spec.target import Served

if TYPE_CHECKING:
    from assay.run.workloads import Item


_FLOAT_BYTES = 4
# Keys of a delta whose string carries tokens, with their channel. `reasoning_content` is what vLLM, SGLang and
# llama.cpp say, `reasoning` what newer vLLM and OpenRouter do.
STRINGS = {"content": TEXT, "reasoning_content": REASONING, "reasoning": REASONING, "refusal": TEXT, "text": TEXT}
_SPOKEN = ("content", "reasoning_content", "reasoning", "refusal")
KEYS = {name: re.compile(rb'"%b"\s*:\s*"' % name.encode()) for name in STRINGS}


class OpenAiText(ServedApi):
    """Builds greedy, seeded, streamed requests and reads their answers."""

    path: ClassVar[str]
    smallest: ClassVar[Mapping[str, JsonValue]]
    """The fields that carry the prompt, in the smallest request."""

    def __init__(self, target: Served, seed: int, take: Take) -> None:
        self._path = target.path or self.path
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

    @classmethod
    def warm_request(cls, target: Served) -> tuple[str, dict[str, JsonValue]]:
        model = target.options.get("model", target.model)
        return target.path or cls.path, {"model": model, "max_tokens": 1, "stream": False, **cls.smallest}

    def request(self, fields: Mapping[str, JsonValue], output_tokens: int | None) -> Call:
        given = dict(self._fields)
        if output_tokens is None and given.get("max_tokens") == OUTPUT_TOKENS:
            del given["max_tokens"]  # the server's own default
        body: JsonValue = given if not self._varies else filled(given, {OUTPUT_TOKENS: output_tokens})
        # What the user gave in place of the workload's own text is not ours to replace.
        return Call("POST", self._path, self._headers, to_json({**fields, **body}))  # type: ignore[dict-item]

    def draft(self, body: bytes) -> AnswerDraft:
        """Read an answer, streamed or not, as the server chose to send it."""
        return read_document(body, self._take) if is_document(body) else read_events(body, self._take)


def take_frame_of(draft: AnswerDraft, event: Mapping[str, Any]) -> list[Any]:
    """Keep what stands around the choices, and give the choices."""
    if (usage := event.get("usage")) is not None:
        draft.usage = usage_of(usage)
    if draft.id is None and isinstance(answer_id := event.get("id"), str):
        draft.id = answer_id
    choices = event.get("choices")
    if choices is None and usage is None:
        raise ValueError("neither choices nor usage")
    return choices or []


def take_tools(draft: AnswerDraft, delta: Mapping[str, Any], end: int) -> bool:
    """Keep the text of tool calls; they are tokens too."""
    calls = [call.get("function") or {} for call in delta.get("tool_calls") or ()]
    if delta.get("function_call"):
        calls.append(delta["function_call"])
    said = "".join((call.get("name") or "") + (call.get("arguments") or "") for call in calls)
    if said:
        draft.say(TOOL, said, end)
    return bool(said)


class OpenAiChat(OpenAiText):
    path = "/v1/chat/completions"
    smallest: ClassVar = {"messages": [{"role": "user", "content": "Hello"}]}

    def __init__(self, target: Served, seed: int) -> None:
        super().__init__(target, seed, take_chat)

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        return self.request({"messages": messages_of(item, turn, list(answers))}, item.output_tokens)


def take_chat(draft: AnswerDraft, event: Mapping[str, Any], end: int) -> Plain | None:
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


def _take_delta(draft: AnswerDraft, delta: Mapping[str, Any], end: int) -> tuple[bool, Plain | None]:
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


def _take_parts(draft: AnswerDraft, parts: Sequence[Mapping[str, Any]], end: int) -> bool:
    """Keep content that is a list of typed parts, thinking among them."""
    said = False
    for part in parts:
        thinking = part.get("thinking")
        texts = thinking if isinstance(thinking, list) else [{"text": thinking or part.get("text")}]
        if text := "".join(thought.get("text") or "" for thought in texts):
            draft.say(REASONING if thinking else TEXT, text, end)
            said = True
    return said


class OpenAiCompletions(OpenAiText):
    path = "/v1/completions"
    smallest: ClassVar = {"prompt": "Hello"}

    def __init__(self, target: Served, seed: int) -> None:
        super().__init__(target, seed, take_completion)

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        """The text up to this turn; there are no roles, so turns and answers simply follow one another."""
        texts = [] if item.system is None else [item.system]
        for number in range(turn):
            texts += [item.turns[number], answers[number]]
        return self.request({"prompt": "\n\n".join([*texts, item.turns[turn]])}, item.output_tokens)


def take_completion(draft: AnswerDraft, event: Mapping[str, Any], end: int) -> Plain | None:
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


class OpenAiEmbeddings(ServedApi):
    task = "embedding"
    generates = False

    def __init__(self, target: Served, seed: int) -> None:  # noqa: ARG002  (nothing is drawn)
        self._path = target.path or "/v1/embeddings"
        self._fields = merged({"model": model_of(target)}, target.options)
        self._headers = headers_of(target, "application/json")

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:  # noqa: ARG002  (no conversation)
        """All texts of the item in one request."""
        return Call("POST", self._path, self._headers, to_json({"input": list(item.turns), **self._fields}))

    def draft(self, body: bytes) -> AnswerDraft:
        return read_document(body, _take_vectors)


def _take_vectors(draft: AnswerDraft, event: Mapping[str, Any], end: int) -> None:  # noqa: ARG001
    vectors = event["data"]
    first = vectors[0]["embedding"] if vectors else []
    draft.vectors = len(vectors)
    draft.dims = len(first) if isinstance(first, list) else len(first) * 3 // 4 // _FLOAT_BYTES  # base64
    draft.done = True
    if (usage := event.get("usage")) is not None:
        draft.usage = usage_of(usage)
    if draft.dims == 0:
        draft.blame("shape", "the answer has no vector in it")


# Ollama ignores fields it does not know without a word, so what is not one of these is an option of the model.
_FIELDS = frozenset({"model", "messages", "tools", "format", "options", "stream", "keep_alive", "think", "template"})


class OllamaApi(ServedApi):
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
        options = {name: target.options[name] for name in ("keep_alive",) if name in target.options}
        return "/api/generate", {"model": target.options.get("model", target.model), "stream": False, **options}


def take_line(draft: AnswerDraft, event: Mapping[str, Any], end: int) -> None:
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


class PlainHttp(ServedApi):
    needs_model = False
    generates = False
    counts_input = False

    def __init__(self, target: Served, seed: int) -> None:  # noqa: ARG002  (the user's body says it)
        if target.method != "GET" and target.body is None:
            message = f"api: http sends a {target.method} request, and target.body is missing"
            try_ = "write the JSON body with $prompt where the prompt goes, or set method: GET"
            raise MeasureError(message, code="target", at="target.body", try_=try_)
        if target.options and target.body is not None and not isinstance(target.body, dict):
            message = "target.options are fields of a JSON object, and target.body is not one"
            try_ = "write the whole body under target.body"
            raise MeasureError(message, code="target", at="target.options", try_=try_)
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

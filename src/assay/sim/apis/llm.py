"""The simulated LLM server: what its paths are, and what a request to each of them asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from assay.sim.apis.dialects import Chat, Completions, OllamaDialect, embed, embeddings, models, tags
from assay.sim.apis.schedule import (
    JSON,
    Dialect,
    IntactReply,
    ReplyPlan,
    ReplyTimes,
    ScheduleBuilder,
    broken_reply,
    fitted,
    packed,
    parse_request,
    reply,
    tail_of,
)
from assay.sim.apis.site import METRICS, Site
from assay.sim.apis.text import WordTokenizer, chat_texts, limit, one_prompt, prompt_tokens, texts_of, vector
from assay.sim.wire.connection import Head, HttpError, ServerConnection
from assay.sim.world import REFUSED, ReplySchedule, SimulatedReply, World

# From the request and its number to what is answered.
Planning = Callable[[dict[str, Any], int], ReplyPlan]


class LlmServer:
    """An OpenAI-like and Ollama-like server."""

    def __init__(self, world: World) -> None:
        script = world.script
        self._world, self._script, self._words = world, script, WordTokenizer()
        self._courses = ScheduleBuilder(script)
        self._model = script.model or "sim"
        self._created = int(time.time())
        created = datetime.fromtimestamp(self._created, UTC).isoformat().replace("+00:00", "Z")
        self._chat = Chat(
            self._model,
            self._created,
            done=script.done,
            reasoning_field=script.reasoning_field,
            reasoning_tokens=script.reasoning_tokens,
        )
        self._completions = Completions(self._model, self._created, done=script.done)
        self._ollama_chat = OllamaDialect(self._model, created, chat=True)
        self._ollama = OllamaDialect(self._model, created, chat=False)
        self._at_once = (
            script.ttft == script.itl
            and script.ttft.is_constant
            and script.ttft.first == 0
            and not script.capacity
            and not script.rate_limit
            and not script.pause
            and script.flush == "once"
            and not script.ready_after
        )
        self.site = self._site(created)

    def _site(self, created: str) -> Site:
        site = Site(self._world)
        for path, dialect, planning in (
            ("/v1/chat/completions", self._chat, self._plan_chat),
            ("/v1/completions", self._completions, self._plan_completion),
            ("/api/chat", self._ollama_chat, self._plan_ollama_chat),
            ("/api/generate", self._ollama, self._plan_ollama),
        ):
            site.serve("POST", path, partial(self._generate, dialect, planning))
        site.serve("POST", "/v1/embeddings", partial(self._embed, self._chat, self._openai_vectors))
        site.serve("POST", "/api/embed", partial(self._embed, self._ollama, self._ollama_vectors))
        site.route("GET", "/v1/models", self._models)
        for path, body in (("/api/tags", tags(self._model, created)), ("/api/version", packed({"version": "0.0.0"}))):
            site.route("GET", path, partial(_always, body))
        site.route("GET", "/metrics", self._metrics)
        if self._script.tokenizer:
            site.route("POST", "/tokenize", self._tokenize)
            site.route("POST", "/detokenize", self._detokenize)
        return site

    # Answers of tokens

    def _generate(
        self,
        dialect: Dialect,
        planning: Planning,
        connection: ServerConnection,
        head: Head,
        body: bytes,
        arrival_ns: int,
    ) -> None:
        world, number = self._world, self._world.take_number()
        try:
            plan = planning(self._request(head, body), number)
        except HttpError as problem:
            self._refuse(dialect, problem, connection, head, number, arrival_ns)
            return
        world.counters.prompted += plan.prompt_tokens
        fault = world.fault(number)
        if self._at_once and fault is None and plan.stream and head.keep_alive and not head.old:
            shape = self._courses.shape(dialect, plan.tokens)
            data = shape.joined + tail_of(dialect, plan, ReplyTimes(arrival_ns, arrival_ns, arrival_ns))
            world.answer_now(connection, number, arrival_ns, data, shape.carried, plan.prompt_tokens, plan.reason)
            return
        course = self._course(dialect, plan, head, number, fault)
        world.admit(SimulatedReply(world, connection, number, arrival_ns, course))

    def _course(self, dialect: Dialect, plan: ReplyPlan, head: Head, number: int, fault: str | None) -> ReplySchedule:
        world, courses = self._world, self._courses
        shape = courses.shape(dialect, plan.tokens)
        pause = self._script.pause
        if pause is not None and number % pause.every != pause.every - 1:
            pause = None
        offsets = courses.offsets_ns(shape, world.chance(number), world.factor(number), pause)
        if fault is None:
            make = courses.stream if plan.stream else courses.whole
            return make(dialect, plan, head, offsets)
        failed = _on_purpose(fault)
        never = ReplyTimes(0, 0, 0)
        if plan.stream:
            events, carried, when = shape.events, shape.carried, tuple(offsets)
            tail = b"".join(dialect.ending(plan, never))
        else:
            events = (dialect.whole(plan, "", courses.text(0, plan.tokens), never),)
            carried, when, tail = (plan.tokens,), (offsets[-1],), b""
        kind = dialect.kind if plan.stream else JSON
        errors = (dialect.error(failed), dialect.error_event(failed), dialect.broken_event())
        sound = IntactReply(head, kind, events, carried, when, plan.stream, *errors, plan.prompt_tokens, tail)
        return broken_reply(fault, sound)

    def _chat_tokens(self, request: dict[str, Any]) -> int:
        texts = chat_texts(request)
        return sum([len(text.split()) for text in texts]) + self._script.template_tokens * len(texts)

    def _plan_chat(self, request: dict[str, Any], number: int) -> ReplyPlan:
        prompt = self._chat_tokens(request)
        return self._plan(request, number, prompt, limit(request, "max_completion_tokens", "max_tokens"), streams=False)

    def _plan_completion(self, request: dict[str, Any], number: int) -> ReplyPlan:
        prompt = prompt_tokens(one_prompt(request))
        return self._plan(request, number, prompt, limit(request, "max_tokens"), streams=False)

    def _plan_ollama_chat(self, request: dict[str, Any], number: int) -> ReplyPlan:
        prompt = self._chat_tokens(request)
        return self._plan(request, number, prompt, limit(request.get("options") or {}, "num_predict"), streams=True)

    def _plan_ollama(self, request: dict[str, Any], number: int) -> ReplyPlan:
        prompt = prompt_tokens(request.get("prompt", "")) + prompt_tokens(request.get("system", ""))
        return self._plan(request, number, prompt, limit(request.get("options") or {}, "num_predict"), streams=True)

    def _plan(self, request: dict[str, Any], number: int, prompt: int, most: int | None, *, streams: bool) -> ReplyPlan:
        """The planned reply; `streams` is this API's default."""
        script = self._script
        if script.context_limit is not None and prompt > script.context_limit:
            raise HttpError(
                400,
                f"This model's maximum context length is {script.context_limit} tokens. However, your request has "
                f"{prompt} input tokens. Please reduce the length of the input messages.",
                "context_length_exceeded",
            )
        own = script.tokens
        tokens = max(1, round(own.first if own.is_constant else own.value(self._world.chance(number))))
        tokens = max(tokens, limit(request, "min_tokens") or 0)
        if most is not None and (request.get("ignore_eos") is True or tokens >= most):
            tokens = most
        reason = "length" if tokens == most else "stop"
        stream = request.get("stream", streams)
        if not isinstance(stream, bool):
            raise HttpError(400, f"stream is {stream!r}, neither true nor false")
        usage = script.usage == "always" or (script.usage == "auto" and self._has_usage(request, stream, streams))
        return ReplyPlan(tokens, reason, prompt, stream, usage)

    def _has_usage(self, request: dict[str, Any], stream: bool, streams: bool) -> bool:
        """OpenAI's streams have counts if the request wants them; Ollama's (which stream by default) always do."""
        if not stream or streams:
            return True
        options = request.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    # Embeddings

    def _embed(
        self,
        dialect: Dialect,
        handler: Callable[[dict[str, Any]], tuple[bytes, int]],
        connection: ServerConnection,
        head: Head,
        body: bytes,
        arrival_ns: int,
    ) -> None:
        world, number = self._world, self._world.take_number()
        try:
            data, tokens = handler(self._request(head, body))
        except HttpError as problem:
            self._refuse(dialect, problem, connection, head, number, arrival_ns)
            return
        world.counters.prompted += tokens
        due_ns = round(self._script.ttft.value(world.chance(number)) * world.factor(number) * 1e9)
        fault = world.fault(number)
        if fault is None:
            course = ReplySchedule((fitted(reply(data), head),), (0,), (due_ns,), prompt_tokens=tokens)
        else:
            error = dialect.error(_on_purpose(fault))
            course = broken_reply(
                fault, IntactReply(head, JSON, (data,), (0,), (due_ns,), False, error, error, b"{", tokens)
            )
        world.admit(SimulatedReply(world, connection, number, arrival_ns, course))

    def _vectors(self, request: dict[str, Any]) -> tuple[list[list[float]], int]:
        texts = texts_of(request.get("input"), self._words)
        tokens = sum(len(text.split()) for text in texts)
        most = self._script.context_limit
        if most is not None and any(len(text.split()) > most for text in texts):
            raise HttpError(400, f"This model's maximum context length is {most} tokens.", "context_length_exceeded")
        size = limit(request, "dimensions") or self._script.dimensions
        return [vector(text, size) for text in texts], tokens

    def _openai_vectors(self, request: dict[str, Any]) -> tuple[bytes, int]:
        vectors, tokens = self._vectors(request)
        counted = None if self._script.usage == "never" else tokens
        return embeddings(self._model, vectors, counted, as_base64=request.get("encoding_format") == "base64"), tokens

    def _ollama_vectors(self, request: dict[str, Any]) -> tuple[bytes, int]:
        vectors, tokens = self._vectors(request)
        return embed(self._model, vectors, None if self._script.usage == "never" else tokens), tokens

    # Answered without a script

    def _models(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002  (Handler's signature)
        try:
            self._check(head)
        except HttpError as problem:
            return reply(self._chat.error(problem), problem.status)
        return reply(models(self._model, self._created, self._script.context_limit))

    def _metrics(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        world = self._world
        text = world.counters.text(self._model, len(world.running), len(world.waiting))
        return reply(text.encode(), kind=METRICS)

    def _tokenize(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        """As vLLM (`prompt` or `messages`) and llama.cpp (`content`) have it."""
        request = parse_request(body)
        prompt = (
            " ".join(chat_texts(request)) if "messages" in request else request.get("content", request.get("prompt"))
        )
        if not isinstance(prompt, str):
            raise HttpError(400, "there is no text to make tokens of: give prompt, messages or content")
        try:
            tokens = self._words.encode(prompt)
        except OverflowError as problem:
            raise HttpError(413, str(problem)) from None
        if "content" in request:
            return reply(packed({"tokens": tokens}))
        return reply(packed({"count": len(tokens), "max_model_len": self._script.context_limit, "tokens": tokens}))

    def _detokenize(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        """As vLLM (`prompt`) and llama.cpp (`content`) have it, both in one answer."""
        tokens = parse_request(body).get("tokens")
        if not isinstance(tokens, list):
            raise HttpError(400, "tokens is not a list of numbers")
        try:
            text = self._words.decode(tokens)
        except IndexError:
            raise HttpError(400, "a token is not one of this server's") from None
        return reply(packed({"prompt": text, "content": text}))

    # Requests that get no answer

    def _check(self, head: Head) -> None:
        if not self._world.is_ready:
            raise HttpError(503, "the model is being loaded", "starting")
        key = self._script.api_key
        if key is not None and head.headers.get("authorization") != f"Bearer {key}":
            raise HttpError(401, "Incorrect API key provided.", "invalid_api_key")

    def _request(self, head: Head, body: bytes) -> dict[str, Any]:
        """What is asked, where it may be asked of this server and its model."""
        self._check(head)
        request = parse_request(body)
        if self._script.model is not None and request.get("model") != self._script.model:
            raise HttpError(404, f"The model `{request.get('model')}` does not exist.", "model_not_found")
        return request

    def _refuse(
        self,
        dialect: Dialect,
        problem: HttpError,
        connection: ServerConnection,
        head: Head,
        number: int,
        arrival_ns: int,
    ) -> None:
        data = fitted(reply(dialect.error(problem), problem.status), head)
        course = ReplySchedule((data,), (0,), (0,), status=problem.status, outcome=REFUSED)
        self._world.refuse(SimulatedReply(self._world, connection, number, arrival_ns, course))


def _on_purpose(fault: str) -> HttpError:
    status = int(fault) if fault.isdecimal() else 500
    return HttpError(status, "the simulated server fails on purpose", "simulated")


def _always(body: bytes, _head: Head, _body: bytes) -> bytes:
    return reply(body)

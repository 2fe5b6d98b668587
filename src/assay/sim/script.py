"""The settings of a simulated server: each is a flag and a key of a script file, defined once, here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from assay.errors import Problem, SpecError
from assay.sim.faults import (
    MEANING,
    Draw,
    InjectedFault,
    InjectedPause,
    SlowStart,
    Stop,
    count,
    duration,
    parse_fault,
    parse_pause,
    parse_slow_start,
    parse_stop,
    port_number,
    whole,
)
from assay.units import seconds, size_bytes

# ruff: noqa: RUF009  (`setting` gives a field)


Server = Literal["llm", "http"]
T = TypeVar("T")
_DRAWN = "may be drawn: normal:MEAN,SD, lognormal:MEDIAN,SIGMA, exponential:MEAN or uniform:LOW,HIGH"


@dataclass(frozen=True, slots=True)
class ScriptSetting:
    """One setting: its name, how its value is read, and what it means."""

    name: str
    parse: Callable[[Any], object]
    meaning: str
    default: str = ""
    servers: tuple[Server, ...] = ("llm", "http")
    many: bool = False
    switch: bool | None = None
    """What a flag without a value sets it to; None where a value follows."""

    @property
    def flag(self) -> str:
        """How it is written on a command line."""
        no = "no-" if self.switch is False else ""
        return f"--{no}{self.name.replace('_', '-')}"


def setting(parse: Callable[[Any], T], default: str, meaning: str, *, only: Server | None = None) -> T:
    """A field of a record of settings; the default is written as a user would write it, and none is None."""
    value = parse(default) if default else None
    setting: T = field(default=value, metadata=_metadata(only, parse=parse, meaning=meaning, default=default))  # type: ignore[assignment]
    return setting


def repeated(parse: Callable[[Any], T], meaning: str, *, only: Server | None = None) -> tuple[T, ...]:
    """A field that may be given more than once."""
    setting: tuple[T, ...] = field(default=(), metadata=_metadata(only, parse=parse, meaning=meaning, many=True))
    return setting


def switch(value: bool, meaning: str, *, only: Server | None = None) -> bool:
    """A field that is on or off; the meaning is that of the flag, which changes it."""
    setting: bool = field(default=value, metadata=_metadata(only, parse=_truth, meaning=meaning, switch=not value))
    return setting


def _metadata(only: Server | None, **more: object) -> dict[str, object]:
    return {"servers": (only,) if only else ("llm", "http"), **more}


def settings_of(record: type, server: Server) -> list[ScriptSetting]:
    """The settings of a record that a kind of server has, in order."""
    settings = [ScriptSetting(member.name, **member.metadata) for member in fields(record)]
    return [setting for setting in settings if server in setting.servers]


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")  # noqa: TRY004  (reported like every wrong value)
    return value


def _one_of(*choices: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return parse


def _pattern(value: object) -> tuple[int, ...]:
    texts = value if isinstance(value, list) else str(value).split(",")
    return tuple(whole(text, at_least=1) for text in texts)


_positive = partial(whole, at_least=1)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a text")
    return value


def _words(value: object) -> tuple[str, ...]:
    return tuple(_text(value).split())


@dataclass(frozen=True, slots=True)
class SimScript:
    """What the server does, and when; all times count from the last byte of a request."""

    ttft: Draw = setting(duration, "0", f"Time to the first token; {_DRAWN}.", only="llm")
    itl: Draw = setting(duration, "0", f"Time from each token to the next; {_DRAWN}.", only="llm")
    latency: Draw = setting(duration, "0", f"Time to the answer; {_DRAWN}.", only="http")
    tokens: Draw = setting(count, "32", "Tokens of an answer; max_tokens of a request bounds them.", only="llm")
    tokens_per_chunk: tuple[int, ...] = setting(
        _pattern, "1", "Tokens that travel in one chunk, or a pattern that repeats: 1,4,2.", only="llm"
    )
    first_chunk_tokens: int | None = setting(_positive, "", "Tokens in the first chunk.", only="llm")
    reasoning_tokens: int = setting(
        whole, "0", "How many of the tokens are reasoning; they come before the answer.", only="llm"
    )
    reasoning_field: str = setting(
        _one_of("reasoning_content", "reasoning"), "reasoning_content", "Field of the reasoning text.", only="llm"
    )
    role: str = setting(
        _one_of("first", "apart", "early"),
        "first",
        "The role of a chat: in the first chunk, in a chunk without text just before it (apart), "
        "or in one as soon as the request is there (early).",
        only="llm",
    )
    answer: tuple[str, ...] | None = setting(
        _words, "", "Text whose words are the tokens of all answers, over and over.", only="llm"
    )
    usage: str = setting(
        _one_of("auto", "always", "never"), "auto", "Token counts: as the API has it, always, or never.", only="llm"
    )
    done: bool = switch(True, "End streams without [DONE].", only="llm")
    model: str | None = setting(_text, "", "Name of the model; requests for another one get 404.", only="llm")
    context_limit: int | None = setting(
        _positive, "", "Requests with more prompt tokens than this get 400.", only="llm"
    )
    template_tokens: int = setting(
        whole, "0", "Tokens that the chat template adds for each message of a chat.", only="llm"
    )
    dimensions: int = setting(_positive, "8", "Length of embedding vectors.", only="llm")
    tokenizer: bool = switch(True, "Have no /tokenize and /detokenize.", only="llm")
    body: str = setting(_text, '{"ok": true}', "What is answered.", only="http")
    size: int | None = setting(size_bytes, "", "Make the answer this long, as 64KiB.", only="http")
    api_key: str | None = setting(_text, "", "Requests without this key get 401.")
    capacity: int | None = setting(_positive, "", "Concurrent answers; further requests wait in line.")
    rate_limit: float | None = setting(
        _positive, "", "Tokens per second (answers, for plain HTTP) that all requests share."
    )
    stall: tuple[Stop, ...] = repeated(
        parse_stop, "Stop the whole server: 5s:for=2s after the first request; may be repeated."
    )
    pause: InjectedPause | None = setting(
        parse_pause, "", "Let single answers wait after a token: 200ms:every=10,after=5.", only="llm"
    )
    error: tuple[InjectedFault, ...] = repeated(
        parse_fault,
        "Fail some requests: KIND:every=N, KIND:share=P%, KIND:number=N; may be repeated. "
        f"KIND is a status (429) or {', '.join(MEANING)}.",
    )
    slow_start: SlowStart | None = setting(parse_slow_start, "", "Take longer at first: 3x:requests=10 or 3x:for=5s.")
    ready_after: float = setting(seconds, "0", "Answer 503 for this long after the start, /health too.")
    seed: int = setting(whole, "0", "Seed of all that is drawn; each request draws by its own number.")
    flush: str = setting(
        _one_of("once", "each"), "once", "Chunks that are due together: one write for all, or one write each."
    )
    record: bool = switch(True, "Keep no record of what was written when: faster.")


def build(record: type[T], values: Mapping[str, object], server: Server, source: str = "") -> T:
    """Read all values of a record of settings; what is not given has its default."""
    settings = {entry.name: entry for entry in settings_of(record, server)}
    problems: list[Problem] = []
    read: dict[str, object] = {}
    for name, value in values.items():
        setting = settings.get(name)
        if setting is None:
            problems.append(_unknown(name, settings, server, source))
            continue
        try:
            read[name] = _read(setting, value)
        except ValueError as problem:
            shown = setting.flag if not source else name
            problems.append(Problem("value", f"{shown}: {problem}", source, setting.meaning))
    if problems:
        raise SpecError.of(problems)
    return record(**read)


def _read(setting: ScriptSetting, value: object) -> object:
    if setting.many:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(setting.parse(item) for item in items)
    return setting.parse(value)


def _unknown(name: str, known: Iterable[str], server: Server, source: str) -> Problem:
    import difflib

    near = difflib.get_close_matches(str(name), list(known), 1)
    hint = f"did you mean {near[0]}?" if near else f"`assay sim {server} --help` lists every setting"
    return Problem("unknown-key", f"{name!r} is not a setting of this server", source, hint)


def read_file(path: Path) -> dict[str, object]:
    from assay.spec.limits import read_text
    from assay.spec.source import parse_any

    document = parse_any(read_text(path, "the script"), ".yaml", str(path))[0]
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SpecError(
            "a script is a mapping of settings", code="syntax", at=str(path), try_="write for example `ttft: 50ms`"
        )
    return document


def _path(value: object) -> Path:
    return Path(str(value)).expanduser()


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where the server is and how it runs; what it does is in its script."""

    port: int = setting(port_number, "0", "Port to listen on; 0 takes a free one.")
    host: str = setting(str, "127.0.0.1", "Address to listen on.")
    script: Path | None = setting(_path, "", "YAML file with the same settings; flags win over it.")
    cpu: int | None = setting(whole, "", "Run on this core alone (Linux).")
    tls_cert: Path | None = setting(_path, "", "Certificate chain (PEM); turns TLS on.")
    tls_key: Path | None = setting(_path, "", "Private key of the certificate (PEM).")
    lifeline: bool = switch(False, "End when the standard input is closed.")

"""Faults on purpose and the requests they hit; quantities that are fixed or drawn, such as `normal:50ms,5ms`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from assay.units import ratio, seconds

# Beside these, any status of 400 to 599 is a fault: `429`, `503`, …
MEANING = {
    "reset": "the connection is reset before the answer begins",
    "reset-inside": "the connection is reset in the middle of the answer",
    "truncated": "the connection is closed in the middle of the answer, without its end",
    "unfinished": "the answer ends well as HTTP, but in the middle of the stream: no finish reason, no [DONE]",
    "malformed-event": "an event in the middle of the stream is not JSON",
    "error-event": "an event in the middle of the stream reports an error, and the stream ends",
    "malformed-http": "the answer is not HTTP",
    "malformed-chunk": "the size of an HTTP chunk in the middle of the answer is no number",
    "endless": "tokens without end, until the client goes away",
    "silence": "nothing is ever answered",
    "hang": "the answer stops in the middle for ever, and the connection stays open",
    "redirect": "status 307, to another path",
    "wrong-length": "content-length says ten bytes more than follow before the connection is closed",
}
Kind = Literal["constant", "uniform", "normal", "lognormal", "exponential"]
# What stands after the colon: how many values, and which of them have the quantity's unit.
_SHAPES: dict[Kind, tuple[str, tuple[bool, ...]]] = {
    "constant": ("VALUE", (True,)),
    "uniform": ("LOW,HIGH", (True, True)),
    "normal": ("MEAN,SD", (True, True)),
    "lognormal": ("MEDIAN,SIGMA", (True, False)),
    "exponential": ("MEAN", (True,)),
}


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One thing that goes wrong: with every N-th request, with one of them, or with a share of them by chance."""

    kind: str
    every: int = 0
    number: int = -1
    share: float = 0.0

    def hits(self, number: int, seed: int) -> bool:
        """Whether it befalls the request of this number, counted from 0."""
        if self.every:
            return number % self.every == self.every - 1
        if self.share:
            return Random(f"{seed} {self.kind} {number}").random() < self.share  # noqa: S311  (no secret)
        return number == self.number


def choose(faults: Sequence[InjectedFault], number: int, seed: int) -> str | None:
    """The first fault of a list that befalls a request."""
    return next((fault.kind for fault in faults if fault.hits(number, seed)), None)


def parse_fault(value: object) -> InjectedFault:
    """Parse `429:every=10`, `reset:share=5%` or `hang:number=3`."""
    kind, options = parts(value, {"every", "share", "number"}, "429:every=10, reset:share=5% or hang:number=3")
    if not (kind in MEANING or (kind.isdecimal() and 400 <= int(kind) <= 599)):
        raise ValueError(f"unknown error {kind!r}; use a status of 400 to 599 or one of {', '.join(MEANING)}")
    if len(options) != 1:
        raise ValueError(f"{value!r} does not say which requests; add one of every=N, share=P% or number=N")
    if "share" in options:
        share = ratio(options["share"])
        if not 0 < share <= 1:
            raise ValueError(f"the share in {value!r} is not between 0 and 100 %")
        return InjectedFault(kind, share=share)
    if "every" in options:
        return InjectedFault(kind, every=whole(options["every"], at_least=1))
    return InjectedFault(kind, number=whole(options["number"]))


@dataclass(frozen=True, slots=True)
class Stop:
    """The whole server stops for a while, at a time after the first request."""

    at_s: float
    for_s: float


def parse_stop(value: object) -> Stop:
    """Parse `5s:for=2s`: stop five seconds after the first request, for two seconds."""
    at, options = parts(value, {"for"}, "5s:for=2s")
    if "for" not in options:
        raise ValueError(f"{value!r} does not say for how long; write for example 5s:for=2s")
    return Stop(seconds(at), seconds(options["for"]))


@dataclass(frozen=True, slots=True)
class InjectedPause:
    """Single answers stop for a while before a token."""

    for_s: float = 0.0
    every: int = 1
    after: int = 1


def parse_pause(value: object) -> InjectedPause:
    """Parse `200ms:every=10,after=5`: each tenth answer waits 200 ms more after its fifth token."""
    length, options = parts(value, {"every", "after"}, "200ms:every=10,after=5")
    return InjectedPause(
        seconds(length), whole(options.get("every", "1"), at_least=1), whole(options.get("after", "1"), at_least=0)
    )


@dataclass(frozen=True, slots=True)
class SlowStart:
    """The first requests, or those of the first seconds, take this many times as long."""

    factor: float = 1.0
    requests: int = 0
    for_s: float = 0.0


def parse_slow_start(value: object) -> SlowStart:
    """Parse `3x:requests=10` or `3x:for=5s`."""
    text, options = parts(value, {"requests", "for"}, "3x:requests=10 or 3x:for=5s")
    if len(options) != 1:
        raise ValueError(f"{value!r} does not say how long the start lasts; add requests=N or for=TIME")
    try:
        factor = float(text.removesuffix("x"))
    except ValueError:
        raise ValueError(f"{text!r} is not a factor; write for example 3x") from None
    if not 0 < factor < 1e6:
        raise ValueError(f"the factor in {value!r} is not above 0 and below a million")
    return SlowStart(factor, whole(options.get("requests", "0")), seconds(options.get("for", "0")))


def parts(value: object, known: set[str], example: str) -> tuple[str, dict[str, str]]:
    """Split `HEAD:key=value,key=value`; keys that are not known are refused."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} cannot be read; write for example {example}")  # noqa: TRY004  (reported alike)
    head, _, rest = str(value).partition(":")
    options: dict[str, str] = {}
    for pair in rest.split(",") if rest else ():
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or key not in known or key in options:
            raise ValueError(f"{pair!r} in {value!r} cannot be read; write for example {example}")
        options[key] = text
    return head.strip(), options


def whole(value: object, at_least: int = 0) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or int(text) < at_least:
        raise ValueError(f"{value!r} is not a whole number of {at_least} or more")
    return int(text)


def port_number(value: object) -> int:
    port = whole(value)
    if port > 65535:
        raise ValueError(f"{value!r} is no port: the last one is 65535")
    return port


@dataclass(frozen=True, slots=True)
class Draw:
    """A quantity; `normal` is cut off at 0."""

    kind: Kind
    first: float
    second: float = 0.0

    @property
    def is_constant(self) -> bool:
        return self.kind == "constant"

    def value(self, source: Random) -> float:
        if self.kind == "constant":
            return self.first
        if self.kind == "uniform":
            return source.uniform(self.first, self.second)
        if self.kind == "normal":
            return max(0.0, source.normalvariate(self.first, self.second))
        if self.kind == "lognormal":
            return self.first * math.exp(source.normalvariate(0.0, self.second))
        return source.expovariate(1 / self.first) if self.first else 0.0


def duration(value: object) -> Draw:
    """A time, fixed or drawn, in seconds."""
    return _parse(value, seconds)


def count(value: object) -> Draw:
    """A number of things, fixed or drawn; rounded when it is used."""
    return _parse(value, _number)


def _parse(value: object, unit: Callable[[object], float]) -> Draw:
    name, colon, rest = value.partition(":") if isinstance(value, str) else ("constant", "", "")
    if not colon:
        return Draw("constant", unit(value))
    kind = next((kind for kind in _SHAPES if kind == name.strip()), None)
    if kind is None:
        raise ValueError(f"unknown distribution {name!r} in {value!r}; use one of {', '.join(_SHAPES)}")
    shape, with_unit = _SHAPES[kind]
    texts = [text.strip() for text in rest.split(",")]
    if len(texts) != len(with_unit):
        raise ValueError(f"{value!r} needs {len(with_unit)} values: {kind}:{shape}")
    numbers = [unit(text) if has_unit else _number(text) for text, has_unit in zip(texts, with_unit, strict=True)]
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise ValueError(f"{value!r} ends before it begins")
    return Draw(kind, *numbers)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004  (reported like every wrong value)
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is not a number of 0 or more")
    return number

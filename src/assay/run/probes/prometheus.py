"""The Prometheus text format, version 0.0.4, read strictly: a line that is not right fails the whole scrape.

A full reader comes with `prometheus-client`, which only a server needs; this one also keeps to what a probe can
afford, a few microseconds per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, cast, get_args

Kind = Literal["counter", "gauge", "histogram", "summary", "untyped"]
Labels = tuple[tuple[str, str], ...]

_SPACE = r"[ \t]"
_SAMPLE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*){_SPACE}*"
    rf'(?:\{{((?:[^"}}]|"(?:[^"\\]|\\.)*")*)\}}{_SPACE}*)?(?<=[ \t}}])'
    rf"([^ \t]+)(?:{_SPACE}+(-?[0-9]+))?{_SPACE}*"
)
_LABEL = re.compile(rf'{_SPACE}*([a-zA-Z_][a-zA-Z0-9_]*){_SPACE}*={_SPACE}*"((?:[^"\\]|\\.)*)"{_SPACE}*(,|$)')
_ESCAPE = re.compile(r"\\(.)")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_TYPE = re.compile(rf"#{_SPACE}*TYPE{_SPACE}+([a-zA-Z_:][a-zA-Z0-9_:]*){_SPACE}+([a-z]+){_SPACE}*")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


class FormatError(ValueError):
    """A text is not of this format."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    name: str
    labels: Labels  # sorted by name
    value: float
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Exposition:
    """Everything that one scrape returned."""

    samples: tuple[Sample, ...]
    kinds: dict[str, Kind] = field(default_factory=dict)
    """Name of a family → its kind, where it was told."""

    def family(self, name: str) -> tuple[str, Kind]:
        """The family of a sample's name: `x_bucket` belongs to the histogram `x`."""
        if (kind := self.kinds.get(name)) is not None:
            return name, kind
        for owner, suffixes in _SUFFIXES.items():
            for suffix in suffixes:
                if name.endswith(suffix) and self.kinds.get(name.removesuffix(suffix)) == owner:
                    return name.removesuffix(suffix), self.kinds[name.removesuffix(suffix)]
        return name, "untyped"


def parse(text: str) -> Exposition:
    """Read a scrape.

    Raises:
        FormatError: with the line that is not right.
    """
    kinds: dict[str, Kind] = {}
    samples = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.startswith("#"):
                _note_kind(line, kinds)
            elif line.strip(" \t\r"):
                samples.append(_sample(line.rstrip("\r")))
        except FormatError as wrong:
            raise FormatError(f"line {number}: {wrong}: {line[:200]!r}") from None
    return Exposition(tuple(samples), kinds)


def _note_kind(line: str, kinds: dict[str, Kind]) -> None:
    """Take a TYPE line; every other comment says nothing to us."""
    if not line.lstrip("# \t").startswith("TYPE"):
        return
    match = _TYPE.fullmatch(line.rstrip("\r"))
    if match is None:
        raise FormatError("not a TYPE line")
    name, kind = match.groups()
    if kind not in get_args(Kind):
        raise FormatError(f"unknown type {kind}")
    if kinds.setdefault(name, cast("Kind", kind)) != kind:
        raise FormatError(f"{name} has two types")


def _sample(line: str) -> Sample:
    match = _SAMPLE.fullmatch(line.strip(" \t"))
    if match is None:
        raise FormatError("not a sample")
    name, labels, value, timestamp = match.groups()
    if not _NUMBER.fullmatch(value):
        raise FormatError(f"{value} is not a number")
    return Sample(name, _labels(labels or ""), float(value), None if timestamp is None else int(timestamp))


@lru_cache(maxsize=10_000)
def _labels(text: str) -> Labels:
    """Labels by name; the same text comes back with every scrape."""
    found: dict[str, str] = {}
    for name, value in _pairs(text):
        if name in found:
            raise FormatError(f"the label {name} comes twice")
        found[name] = value
    return tuple(sorted(found.items()))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at, stripped = 0, text.rstrip(" \t")
    while at < len(stripped):
        match = _LABEL.match(stripped, at)
        if match is None:
            raise FormatError("not a label")
        yield match[1], _ESCAPE.sub(_unescaped, match[2])
        at = match.end()


def _unescaped(match: re.Match[str]) -> str:
    try:
        return {"\\": "\\", '"': '"', "n": "\n"}[match[1]]
    except KeyError:
        raise FormatError(f"unknown escape \\{match[1]}") from None

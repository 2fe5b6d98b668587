"""Scrapes of the Prometheus text format, version 0.0.4, read strictly: a line that is not right fails the whole scrape.

A full reader comes with `prometheus-client`, which only a server needs; this one also keeps to what a probe can
afford, a few microseconds per line.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import cast, get_args
from urllib.parse import urlsplit

from assay.run.probes.series import Labels, MetricSeries, SeriesKind

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
    kinds: dict[str, SeriesKind] = field(default_factory=dict)
    """Name of a family → its kind, where it is stated."""

    def family(self, name: str) -> tuple[str, SeriesKind]:
        """The family of a sample's name: `x_bucket` belongs to the histogram `x`."""
        if (kind := self.kinds.get(name)) is not None:
            return name, kind
        for owner, suffixes in _SUFFIXES.items():
            for suffix in suffixes:
                if name.endswith(suffix) and self.kinds.get(name.removesuffix(suffix)) == owner:
                    return name.removesuffix(suffix), self.kinds[name.removesuffix(suffix)]
        return name, "untyped"


def parse(text: str) -> Exposition:
    """Read a scrape."""
    kinds: dict[str, SeriesKind] = {}
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


def _note_kind(line: str, kinds: dict[str, SeriesKind]) -> None:
    """Take a TYPE line; every other comment says nothing to us."""
    if not line.lstrip("# \t").startswith("TYPE"):
        return
    match = _TYPE.fullmatch(line.rstrip("\r"))
    if match is None:
        raise FormatError("not a TYPE line")
    name, kind = match.groups()
    if kind not in get_args(SeriesKind):
        raise FormatError(f"unknown type {kind}")
    if kinds.setdefault(name, cast("SeriesKind", kind)) != kind:
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
    labels: dict[str, str] = {}
    at, stripped = 0, text.rstrip(" \t")
    while at < len(stripped):
        if (match := _LABEL.match(stripped, at)) is None:
            raise FormatError("not a label")
        if match[1] in labels:
            raise FormatError(f"the label {match[1]} comes twice")
        labels[match[1]] = _ESCAPE.sub(_unescaped, match[2])
        at = match.end()
    return tuple(sorted(labels.items()))


def _unescaped(match: re.Match[str]) -> str:
    try:
        return {"\\": "\\", '"': '"', "n": "\n"}[match[1]]
    except KeyError:
        raise FormatError(f"unknown escape \\{match[1]}") from None


_MOST_BYTES = 16 * 2**20
_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class ScrapeEndpoint:
    """Where to read."""

    source: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool = True
    ca: str | None = None
    address: str | None = None
    """Where to connect, in place of whatever the host's name says then."""


@dataclass(slots=True)
class Scraper:
    """Reads an endpoint until it is stopped. Bodies are kept compressed and parsed after the run."""

    endpoint: ScrapeEndpoint
    every_s: float
    stop: threading.Event
    bodies: list[tuple[int, int, bytes]] = field(default_factory=list)
    failed: int = 0
    last_error: str = ""
    _connection: HTTPConnection | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self) -> None:
        """Read at the rate asked for; a slow answer delays the next reading and is not made up for."""
        due = time.monotonic()
        while not self.stop.is_set():
            self.scrape()
            due = max(due + self.every_s, time.monotonic())
            self.stop.wait(max(0.0, due - time.monotonic()))

    def scrape(self) -> None:
        """Read once; a failure is counted and never raised."""
        with self._lock:
            before_ns = time.perf_counter_ns()
            try:
                body = self._get()
            except (OSError, HTTPException, ValueError) as failure:
                self._drop()
                self._fail(str(failure) or type(failure).__name__)
            else:
                self.bodies.append((before_ns, time.perf_counter_ns(), zlib.compress(body, 1)))

    def series(self) -> list[MetricSeries]:
        """All readings, as columns."""
        by_key: dict[tuple[str, Labels], MetricSeries] = {}
        last_ns: int | None = None
        for before_ns, after_ns, body in self.bodies:
            try:
                exposition = parse(zlib.decompress(body).decode("utf-8"))
            except (FormatError, UnicodeDecodeError) as wrong:
                self._fail(f"not the Prometheus text format: {wrong}")
                continue
            at_ns = (before_ns + after_ns) // 2
            for sample in exposition.samples:
                key = (sample.name, sample.labels)
                if key not in by_key:
                    family, kind = exposition.family(sample.name)
                    by_key[key] = MetricSeries(sample.name, sample.labels, kind, family, unseen_ns=last_ns)
                by_key[key].add(at_ns, sample.value)
            last_ns = at_ns
        return list(by_key.values())

    @property
    def asked(self) -> int:
        """How often it was read, or tried to be."""
        return len(self.bodies) + self.failed

    def slowest_ms(self) -> float | None:
        """The longest that an answer took."""
        return max(((after - before) / 1e6 for before, after, _ in self.bodies), default=None)

    def _get(self) -> bytes:
        parts = urlsplit(self.endpoint.url)
        connection = self._connection or self._connect(parts.scheme, parts.hostname or "", parts.port)
        self._connection = connection
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": _ACCEPT, **self.endpoint.headers})
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES + 1)
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        if len(body) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        if answer.will_close:
            self._drop()
        return body

    def _connect(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        wait_s = max(1.0, min(5.0, 2 * self.every_s))
        context = self._context() if scheme == "https" else None
        connection = (HTTPConnection if context is None else HTTPSConnection)(host, port, timeout=wait_s)
        connection.auto_open = 0  # it would ask for the name again
        made = socket.create_connection((self.endpoint.address or host, connection.port), wait_s)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock = made if context is None else context.wrap_socket(made, server_hostname=host)
        return connection

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.endpoint.ca)
        if not self.endpoint.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fail(self, reason: str) -> None:
        self.failed += 1
        self.last_error = reason[:300]

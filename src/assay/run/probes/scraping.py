"""Scrapes: one text endpoint read at a steady rate, each reading between two stamps of the job's clock."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from assay.run.probes.prometheus import FormatError, Labels, parse
from assay.run.probes.series import Series

_MOST_BYTES = 16 * 2**20
_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class Endpoint:
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
    """Reads an endpoint until told to stop. Bodies are kept packed; they are understood after the run."""

    endpoint: Endpoint
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

    def series(self) -> list[Series]:
        """All readings, as columns."""
        found: dict[tuple[str, Labels], Series] = {}
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
                if key not in found:
                    family, kind = exposition.family(sample.name)
                    found[key] = Series(sample.name, sample.labels, kind, family, unseen_ns=last_ns)
                found[key].add(at_ns, sample.value)
            last_ns = at_ns
        return list(found.values())

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

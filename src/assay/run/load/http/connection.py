"""One keep-alive connection: a socket, a parser, and the request that is open on it."""

from __future__ import annotations

import errno
import socket
import ssl
from time import perf_counter_ns
from typing import Literal, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from assay.run.load.http.origin import Origin
from assay.run.load.http.poller import READ, WRITE, Poller
from assay.run.load.http.recording import CODE

KEPT_HEADERS = frozenset({b"x-request-id", b"request-id", b"retry-after", b"openai-processing-ms", b"server"})
MAX_ANSWER = 256 * 2**20
_CHUNK = 65_536
_PENDING = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN}
_OK, _STATUS, _REDIRECT = CODE["ok"], CODE["status"], CODE["redirect"]
_FIRST_ERROR, _FIRST_REDIRECT = 400, 300
# A server may close a connection between two requests, just when it is used again: the second never reached it and is
# sent again. A close in good order this soon is taken for that, and so is a reset of a connection that had rested;
# a server that breaks off what it was asked is a failure and counts as one.
_SOON_NS = 50_000_000
_RESTED_NS = 100_000_000

State = Literal["connecting", "proxy", "tls", "idle", "busy", "closed"]
UNCONNECTED = frozenset({"connecting", "proxy", "tls"})


class _ClosedInOrder(ConnectionError):  # noqa: N818  (a state, distinct from a reset)
    """The server ended the connection in good order."""


class Owner(Protocol):
    """Is called when requests end."""

    now: int  # when the network was last looked at
    poller: Poller
    origin: Origin
    by_fd: dict[int, ClientConnection]
    resent: int  # requests that met a closed connection and were sent again

    def ended(self, connection: ClientConnection, outcome: int) -> None:
        """The open request of a connection has ended; the connection is idle or closed."""


class ClientConnection:
    """A socket to the server. All that it does per arrival is to note the time and keep the bytes."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.state: State = "closed"
        self.user = 0
        self.fresh = True
        self.session = self.turn = self.stage = self.phase = 0
        self.due = self.sent = 0
        self.wire = b""
        self.retried = False
        self.status = 0
        self.kept = b""
        self.problem = ""
        self.times: list[int] = []
        self.marks: list[int] = []
        self.parts: list[bytes] = []
        # The parser calls these; a list's own append keeps a part of a body without a step of Python.
        self.on_body = self.parts.append
        self._done = self._keep = False
        self._until_close = True
        self._headers_read = False
        self._left = b""
        self._size = 0
        self._attempt = 0
        self._idle_since = 0
        self._rested = False
        self._socket: socket.socket | None = None
        self._fd = -1
        self._parser: HttpResponseParser | None = None

    # -- sending -----------------------------------------------------------------------------------------------------

    def start(self, wire: bytes) -> None:
        """Send a request; connect first if need be. The caller has filled in what the request is."""
        self.wire = wire
        self.sent = perf_counter_ns()
        self.status = 0
        self._size = 0
        if self.state == "idle":
            self.fresh = False
            self._rested = self.sent - self._idle_since > _RESTED_NS
            self.state = "busy"
            self._left = b""
            self._send(wire)
        else:
            self.fresh = True
            self._attempt = 0
            self._connect()

    def _send(self, data: bytes) -> None:
        try:
            sent = self._socket.send(data)  # type: ignore[union-attr]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError as problem:
            self._broken(problem)
            return
        if sent < len(data):
            self._left = data[sent:]
            self.owner.poller.change(self._fd, READ | WRITE)

    def _connect(self) -> None:
        family, address = self.owner.origin.addresses[self._attempt % len(self.owner.origin.addresses)]
        try:
            self._socket = sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as problem:
            self._fail("refused", f"no socket: {problem.strerror}")
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.state = "connecting"
        code = sock.connect_ex(address)
        if code and code not in _PENDING:
            self._connect_failed(code)
            return
        self._fd = sock.fileno()
        self.owner.by_fd[self._fd] = self
        self.owner.poller.watch(self._fd, READ | WRITE)

    def _connect_failed(self, code: int) -> None:
        self._close()
        self._attempt += 1
        if self._attempt < len(self.owner.origin.addresses):
            self._connect()
        else:
            self._fail("refused", errno.errorcode.get(code, str(code)))

    # -- what the poller says ----------------------------------------------------------------------------------------

    def ready(self, events: int) -> None:
        """The socket can be read or written, or has failed."""
        if self.state == "busy" or self.state == "idle":
            if events & WRITE and self._left:
                self.owner.poller.change(self._fd, READ)
                left, self._left = self._left, b""
                self._send(left)
            if events & ~WRITE and self._socket is not None:
                self._read()
        else:
            self._advance()

    def _advance(self) -> None:
        """Continue to connect: the socket, a proxy's tunnel, TLS, and at last the request."""
        sock = self._socket
        if sock is None:
            return
        if self.state == "connecting":
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._connect_failed(code)
                return
            if self.owner.origin.tunnel:
                self.state = "proxy"
                self._left = b""
                sock.send(self.owner.origin.tunnel)
                self.owner.poller.change(self._fd, READ)
                return
            self._secure()
        elif self.state == "proxy":
            self._tunnelled()
        elif self.state == "tls":
            self._shake_hands()

    def _tunnelled(self) -> None:
        try:
            self._left += self._socket.recv(_CHUNK)  # type: ignore[union-attr]
        except BlockingIOError:
            return
        except OSError as problem:
            self._fail("proxy", str(problem))
            return
        head, separator, _ = self._left.partition(b"\r\n\r\n")
        if not separator and len(head) < _CHUNK and head:
            return
        self._left = b""
        words = head.split(b" ", 2)
        if len(words) < 2 or words[1] != b"200":
            self._fail("proxy", head[:200].decode("latin-1", "replace") or "the proxy closed the connection")
            return
        self._secure()

    def _secure(self) -> None:
        context, sock = self.owner.origin.tls, self._socket
        if context is None:
            self._connected()
            return
        self.state = "tls"
        try:
            self._socket = context.wrap_socket(
                cast("socket.socket", sock), server_hostname=self.owner.origin.host, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as problem:
            self._fail("tls", str(problem))
            return
        self._shake_hands()

    def _shake_hands(self) -> None:
        try:
            self._socket.do_handshake()  # type: ignore[union-attr]
        except ssl.SSLWantReadError:
            self.owner.poller.change(self._fd, READ)
        except ssl.SSLWantWriteError:
            self.owner.poller.change(self._fd, READ | WRITE)
        except (OSError, ValueError) as problem:
            self._fail("tls", str(problem))
        else:
            self._connected()

    def _connected(self) -> None:
        self._parser = HttpResponseParser(self)
        self.state = "busy"
        self.owner.poller.change(self._fd, READ)
        self._send(self.wire)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        secure = self.owner.origin.tls is not None
        while True:
            try:
                data = self._socket.recv(_CHUNK)  # type: ignore[union-attr]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as problem:
                self._broken(problem)
                return
            if not data:
                self._eof()
                return
            if self.state != "busy":
                self.shut()  # nothing was asked: whatever this is, the connection is not fit for another request
                return
            self._take(data)
            # TLS may hold decrypted bytes that no poll will announce.
            if not secure or self._socket is None:
                return

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        try:
            self._parser.feed_data(data)  # type: ignore[union-attr]
        except HttpParserUpgrade:
            self._fail("malformed", "the server switched protocols")
            return
        except HttpParserError as problem:
            if not self._done:
                self._fail("malformed", f"{problem}: {data[:80]!r}")
                return
            self._left = data  # more than was asked for: the answer counts, the connection is not used again
        arrived = len(self.parts)
        if arrived and (not self.marks or arrived != self.marks[-1]):
            self.times.append(self.owner.now)
            self.marks.append(arrived)
        if self._done:
            self._complete()
        elif self._size > MAX_ANSWER:
            self._fail("too-large", f"more than {MAX_ANSWER} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header, and for each trailer."""
        name = name.lower()
        if name in KEPT_HEADERS:
            self.kept += name + b": " + value + b"\n"
        elif name in (b"content-length", b"transfer-encoding"):
            self._until_close = False

    def on_headers_complete(self) -> None:
        self._headers_read = True

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()  # type: ignore[union-attr]
        if status < 200:  # an interim answer: the real one follows
            self._headers_read = False
            return
        self.status = status
        # Asked here, for it has forgotten that afterwards.
        self._keep = self._parser.should_keep_alive()  # type: ignore[union-attr]
        self._done = True

    def _complete(self) -> None:
        self.state = "idle"
        self._idle_since = self.owner.now
        if self._left or not self._keep:
            self._close()
        status = self.status
        outcome = _OK if status < _FIRST_REDIRECT else _REDIRECT if status < _FIRST_ERROR else _STATUS
        self.owner.ended(self, outcome)

    def clear(self) -> None:
        """Forget the request that ended; its lists stay, for the parser holds on to them."""
        self.times.clear()
        self.marks.clear()
        self.parts.clear()
        self.kept = b""
        self.problem = ""
        self._done = self._headers_read = self.retried = False
        self._until_close = True

    # -- ends --------------------------------------------------------------------------------------------------------

    def _eof(self) -> None:
        if self.state != "busy":
            self.shut()
        elif self._headers_read and self._until_close:
            self.status = self._parser.get_status_code()  # type: ignore[union-attr]
            self._close()
            self.owner.ended(self, _OK if self.status < _FIRST_REDIRECT else _STATUS)
        else:
            self._broken(_ClosedInOrder("closed by the server"))

    def _broken(self, problem: OSError) -> None:
        if self._size:
            self.status = self._parser.get_status_code() if self._headers_read and self._parser else 0
            self._fail("truncated", str(problem))
        elif not self.fresh and not self.retried and (self._rested or self._closed_soon(problem)):
            self.owner.resent += 1
            self.retried = self.fresh = True
            self._close()
            self._attempt = 0
            self._connect()
        else:
            self._fail("tls" if isinstance(problem, ssl.SSLError) else "reset", str(problem))

    def _closed_soon(self, problem: OSError) -> bool:
        return isinstance(problem, _ClosedInOrder) and perf_counter_ns() - self.sent < _SOON_NS

    def _fail(self, outcome: str, problem: str) -> None:
        self.problem = problem
        self._close()
        self.owner.ended(self, CODE[outcome])

    def cut(self, outcome: str) -> None:
        """End the open request from our side."""
        if self.state not in ("idle", "closed"):
            self.status = self._parser.get_status_code() if self._headers_read and self._parser else 0
            self._fail(outcome, f"no {self.state} within the time" if self.state in UNCONNECTED else "")

    def shut(self) -> None:
        self._close()

    def _close(self) -> None:
        sock, self._socket = self._socket, None
        self.state = "closed"
        self._left = b""
        self._parser = None
        if sock is not None:
            # A socket that is closed leaves the poller by itself; one that TLS took over may be closed already.
            if self.owner.by_fd.pop(self._fd, None) is not None and sock.fileno() >= 0:
                self.owner.poller.forget(self._fd)
            sock.close()

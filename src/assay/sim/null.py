"""The fastest answer possible: fixed bytes in N chunks, for whatever is asked. What a client can do at most.

    python -m assay.sim.null --pieces 32

It counts requests by their ends alone: an empty line, and then as many bytes as `content-length` says (a body in
chunks is not understood). It imports next to nothing, so that it is there in no time.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from types import FrameType

USAGE = (
    "usage: python -m assay.sim.null [--pieces N] [--port N] [--cpu N] [--lifeline] [--apart]\n"
    "  answers each request with N server-sent events (32), or with one JSON body if N is 0; --apart\n"
    "  writes them one by one, in turn with those of other clients\n"
)
_WORD = b'data: {"id":"null","object":"chat.completion.chunk","model":"null","choices":[{"index":0,"delta":%b}]}\n\n'
_READ = 1


def answer(pieces: int) -> bytes:
    return b"".join(parts(pieces))


def parts(pieces: int) -> list[bytes]:
    if pieces == 0:
        body = b'{"ok":true}'
        return [
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        ]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    event = _WORD % b'{"content":" word"},"finish_reason":null'
    last = _WORD % b'{},"finish_reason":"stop"' + b"data: [DONE]\n\n"
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    end = b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last)
    return [head + chunk, *[chunk] * (pieces - 1), end]


class NullClient:
    """One connection, and what came of a request that is not complete."""

    __slots__ = ("left", "rest", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.rest = sock, b""
        self.left: list[bytes] = []  # pieces of its answer that are still to be written, the last one first

    def requests(self, data: bytes, sizes: dict[bytes, int]) -> int:
        """How many requests are complete with this data."""
        data = self.rest + data if self.rest else data
        count = at = 0
        while True:
            end = data.find(b"\r\n\r\n", at) + 4
            if end < 4:
                break
            head = data[at:end]
            size = sizes.get(head)
            if size is None:
                size = sizes[head] = body_size(head)
            if len(data) < end + size:
                break
            at = end + size
            count += 1
        self.rest = data[at:]
        return count


def body_size(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0


def serve(listener: socket.socket, content: list[bytes], lifeline: int | None) -> None:
    """Answer until something raises; the pieces of an answer are written in turn with those of other clients."""
    poll = select.poll() if not hasattr(select, "epoll") else select.epoll()
    poll.register(listener.fileno(), _READ)
    if lifeline is not None:
        poll.register(lifeline, _READ)
    clients: dict[int, NullClient] = {}
    sizes: dict[bytes, int] = {}
    door = listener.fileno()
    answering: dict[int, NullClient] = {}
    while True:
        for fd, _ in poll.poll(0 if answering else -1):
            client = clients.get(fd)
            if client is None:
                if fd == door:
                    _open(listener, clients, poll)
                elif fd == lifeline and not os.read(fd, 4096):
                    return
            elif not _turn(client, content, sizes):
                poll.unregister(fd)
                answering.pop(fd, None)
                clients.pop(fd).sock.close()
            elif client.left:
                answering[fd] = client
            if len(sizes) > 4096:
                sizes.clear()
        for fd, client in list(answering.items()):
            if not _write_next(client):
                del answering[fd]


def _open(listener: socket.socket, clients: dict[int, NullClient], poll: select.epoll | select.poll) -> None:
    try:
        sock, _ = listener.accept()
    except OSError:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    clients[sock.fileno()] = NullClient(sock)
    poll.register(sock.fileno(), _READ)


def _write_next(client: NullClient) -> bool:
    """Write one piece of an answer; False when it was the last, or the client is gone."""
    try:
        client.sock.sendall(client.left.pop())
    except OSError:
        client.left.clear()
    return bool(client.left)


def _turn(client: NullClient, content: list[bytes], sizes: dict[bytes, int]) -> bool:
    """Read what came and answer it; False when the client has gone."""
    try:
        data = client.sock.recv(65536)
        if not data:
            return False
        count = client.requests(data, sizes)
        if count:
            # In blocking mode: a client that does not take its answer stops the others, but only its own process asks.
            if len(content) == 1:
                client.sock.sendall(content[0] if count == 1 else content[0] * count)
            else:
                client.left[:0] = (content * count)[::-1]
    except OSError:
        return False
    return True


def main(words: list[str]) -> int:
    options = {"--pieces": 32, "--port": 0, "--cpu": -1}
    lifeline, apart = "--lifeline" in words, "--apart" in words
    rest = iter(word for word in words if word not in ("--lifeline", "--apart"))
    for word in rest:
        value = next(rest, "")
        if word not in options or not value.isdecimal():
            sys.stderr.write(USAGE)
            return 2
        options[word] = int(value)
    if options["--cpu"] >= 0 and sys.platform == "linux":
        os.sched_setaffinity(0, {options["--cpu"]})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    with socket.create_server(("127.0.0.1", options["--port"]), backlog=4096) as listener:
        sys.stdout.write(f"listening on http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        content = parts(options["--pieces"]) if apart else [answer(options["--pieces"])]
        serve(listener, content, sys.stdin.fileno() if lifeline else None)
    return 0


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A client that sees every byte, for what a proper client would hide."""

from __future__ import annotations

import json
import socket
import ssl
from time import perf_counter_ns
from typing import Any

from tests.support.simulated import Simulated

CHAT = "/v1/chat/completions"


def chat(words: str = "a b c", *, stream: bool = True, **more: object) -> dict[str, Any]:
    return {"model": "sim", "stream": stream, "messages": [{"role": "user", "content": words}], **more}


def post(path: str, ask: object, *, version: str = "1.1", more: str = "") -> bytes:
    body = ask if isinstance(ask, bytes) else json.dumps(ask).encode()
    head = f"POST {path} HTTP/{version}\r\nhost: sim\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(path: str, *, method: str = "GET", version: str = "1.1", more: str = "") -> bytes:
    return f"{method} {path} HTTP/{version}\r\nhost: sim\r\n{more}\r\n".encode()


class Raw:
    """One connection."""

    def __init__(self, sim: Simulated) -> None:
        self.sock = socket.create_connection((sim.host, sim.port), timeout=60)
        if sim.url.startswith("https:"):
            context = ssl._create_unverified_context()
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost")
        self.got = b""
        self.pieces: list[tuple[int, bytes]] = []

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def more(self) -> bool:
        """Read what comes next; False at the end."""
        data = self.sock.recv(65536)
        self.pieces.append((perf_counter_ns(), data))
        self.got += data
        return bool(data)

    def until_closed(self) -> bytes:
        while self.more():
            pass
        return self.got

    def answer(self, *, has_body: bool = True) -> Answered:
        """Read one whole answer and leave what follows it."""
        while b"\r\n\r\n" not in self.got:
            assert self.more(), self.got
        head, _, rest = self.got.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split()[1])
        if not has_body or status == 100:
            self.got = rest
            return Answered(status, headers, b"", [])
        if headers.get("transfer-encoding") == "chunked":
            return self._chunks(status, headers, len(head) + 4)
        size = int(headers["content-length"])
        while len(self.got) < len(head) + 4 + size:
            assert self.more(), self.got
        body = self.got[len(head) + 4 :][:size]
        self.got = self.got[len(head) + 4 + size :]
        return Answered(status, headers, body, [body])

    def _chunks(self, status: int, headers: dict[str, str], at: int) -> Answered:
        chunks: list[bytes] = []
        while True:
            while (line := self.got.find(b"\r\n", at)) < 0:
                assert self.more(), self.got
            size = int(self.got[at:line], 16)
            while len(self.got) < line + 2 + size + 2:
                assert self.more(), self.got
            assert self.got[line + 2 + size :][:2] == b"\r\n"
            at = line + 2 + size + 2
            if size == 0:
                self.got = self.got[at:]
                return Answered(status, headers, b"".join(chunks), chunks)
            chunks.append(self.got[line + 2 :][:size])


class Answered:
    """A whole answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, chunks: list[bytes]) -> None:
        self.status, self.headers, self.body, self.chunks = status, headers, body, chunks

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The events of a stream; `[DONE]` as it stands."""
        lines = [line for line in self.body.decode().split("\n\n") if line]
        assert all(line.startswith("data: ") for line in lines), lines
        texts = [line.removeprefix("data: ") for line in lines]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.decode().splitlines()]


def ask(sim: Simulated, path: str, body: object, more: str = "") -> Answered:
    """One request on a connection of its own."""
    with Raw(sim) as raw:
        raw.send(post(path, body, more=more))
        return raw.answer()


def fetch(sim: Simulated, path: str, method: str = "GET", more: str = "") -> Answered:
    with Raw(sim) as raw:
        raw.send(get(path, method=method, more=more))
        return raw.answer(has_body=method != "HEAD")

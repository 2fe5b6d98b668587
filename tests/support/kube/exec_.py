"""`kubectl exec` as the API server of the tests answers it: a WebSocket with one channel for each stream."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL = "v4.channel.k8s.io"
_STDOUT, _STDERR, _ERROR = 1, 2, 3
_BINARY, _CLOSE = 0x82, 0x88
_PIECE = 32_768


def serve_exec(
    request: BaseHTTPRequestHandler, run: Callable[[list[str]], tuple[int, bytes, bytes]], words: list[str]
) -> None:
    """Run a command and send what it wrote, then how it ended."""
    key = request.headers.get("Sec-WebSocket-Key", "")
    accept = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
    request.send_response(101)
    for name, value in (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept),
        ("Sec-WebSocket-Protocol", _PROTOCOL),
    ):
        request.send_header(name, value)
    request.end_headers()
    code, out, err = run(words)
    for channel, content in ((_STDOUT, out), (_STDERR, err)):
        for begin in range(0, len(content), _PIECE):
            _send(request, channel, content[begin : begin + _PIECE])
    _send(request, _ERROR, json.dumps(_ended(code)).encode())
    request.wfile.write(bytes((_CLOSE, 2)) + struct.pack(">H", 1000))
    request.wfile.flush()
    request.close_connection = True


def _ended(code: int) -> dict[str, object]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": causes},
        "message": f"command terminated with non-zero exit code: exit status {code}",
    }


def _send(request: BaseHTTPRequestHandler, channel: int, content: bytes) -> None:
    size = len(content) + 1
    if size < 126:
        head = bytes((_BINARY, size))
    elif size < 65_536:
        head = bytes((_BINARY, 126)) + struct.pack(">H", size)
    else:
        head = bytes((_BINARY, 127)) + struct.pack(">Q", size)
    request.wfile.write(head + bytes((channel,)) + content)
    request.wfile.flush()

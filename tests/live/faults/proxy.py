"""A wire that can be cut: passes bytes between a port of its own and a server, until told not to."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress


class Wire:
    """A TCP proxy on loopback; `cut` drops what is open and refuses what comes, `mend` lets it through again."""

    def __init__(self, to_port: int) -> None:
        self._to = ("127.0.0.1", to_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(near,), daemon=True).start()

    def _pass(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(self._to, timeout=5) as far:
            with self._lock:
                if self._is_cut:
                    return
                self._open |= {near, far}
            try:
                _exchange(near, far)
            finally:
                with self._lock:
                    self._open -= {near, far}


def _exchange(near: socket.socket, far: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(near, selectors.EVENT_READ, far)
        selector.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in selector.select():
                chunk = key.fileobj.recv(65536)
                if not chunk:
                    return
                key.data.sendall(chunk)

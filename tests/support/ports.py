"""Ports of this machine for the servers of tests."""

from __future__ import annotations

import itertools
import os
import random
import socket

# Below the ports that the kernel gives out by itself: nothing takes one between here and the start of its server.
_FIRST, _OF_A_WORKER, _WORKERS = 10_000, 2_000, 10
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw9")[2:]) % _WORKERS
# Another run of the tests on this machine begins elsewhere.
_begin = random.SystemRandom().randrange(_OF_A_WORKER)
_ports = (_FIRST + _worker * _OF_A_WORKER + (_begin + number) % _OF_A_WORKER for number in itertools.count())


def free_port() -> int:
    """A port that nobody listens on, given out once."""
    return next(port for port in _ports if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

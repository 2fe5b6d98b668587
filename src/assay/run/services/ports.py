"""Ports: a free one chosen on this machine's address, or a given one checked to be free."""

from __future__ import annotations

import re
import socket
from collections.abc import Container, Iterable

from assay.errors import MeasureError
from assay.spec.addresses import LOOPBACK

HOST = LOOPBACK
# What servers say when somebody else has their port; each language has its own words for it.
_TAKEN = re.compile(
    r"address (is )?already in use|address in use|eaddrinuse|errno 98\b|errno 48\b|wsaeaddrinuse|winerror 10048"
    r"|port \S* ?(is )?already (in use|allocated)|port \S* ?is in use|(could ?n[o']t|cannot|failed to|unable to) bind",
    re.IGNORECASE,
)


def free_port(but: Container[int] = (), host: str = HOST) -> int:
    """A port of an address that nobody listens on, other than those given away before."""
    while True:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        if port not in but:
            return port


def refuse_taken(port: int, at: str, host: str = HOST) -> None:
    """Raise if somebody listens on a port.

    Raises:
        MeasureError: with who holds it, where the system tells.
    """
    with socket.socket() as probe:
        # Connections of an earlier run that are still being forgotten do not matter; a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            raise MeasureError(
                f"port {port} may not be used by this account",
                code="port-taken",
                at=at,
                try_="choose a port above 1023, or leave `port` out and write {port} in the command",
            ) from None
        except OSError:
            raise MeasureError(
                f"port {port} is taken{_holder(port)}",
                code="port-taken",
                at=at,
                try_="end that process, or leave `port` out and write {port} in the command: a free one is then chosen",
            ) from None


def speaks_of_a_taken_port(lines: Iterable[str]) -> bool:
    """Whether a server's last words say that its port was taken."""
    return any(_TAKEN.search(line) for line in lines)


def listener(port: int) -> int | None:
    """The process that listens on a port; None where nobody does or the system does not tell."""
    import psutil

    try:
        for one in psutil.net_connections(kind="tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                return int(one.pid)
    except (psutil.Error, OSError, RuntimeError):  # only an administrator may look
        pass
    return None


def name_of(pid: int) -> str:
    """A process in words."""
    import psutil

    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.Error:
        return f"process {pid}"


def _holder(port: int) -> str:
    pid = listener(port)
    return f" by {name_of(pid)}" if pid else ""

"""The command that brings a Prometheus or Grafana inside a cluster to one's own machine: written, never run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from assay.errors import UsageError

_HOST = re.compile(r"^(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9_][A-Za-z0-9_.-]*$")


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A way from one's own machine to a port inside a cluster."""

    login: str
    """The login node, as ssh knows it: `user@login.example.org`, or a name from ~/.ssh/config."""
    node: str
    port: int
    local_port: int = 9090
    listen: str = "127.0.0.1"
    """The address on which the server inside answers."""

    def words(self) -> list[str]:
        """The command.

        A server that answers on the loopback address alone is reached from its own node; any other one also from the
        login node, where users may not log in to compute nodes.

        Raises:
            UsageError: if a name is none.
        """
        for name in (self.login, self.node):
            if not _HOST.match(name) or name.startswith("-"):
                raise UsageError(f"{name!r} is no name of a host", code="host", try_="write user@host or host")
        if self.listen in ("127.0.0.1", "localhost", "::1"):
            return ["ssh", "-N", "-J", self.login, "-L", f"{self.local_port}:127.0.0.1:{self.port}", self.node]
        return ["ssh", "-N", "-L", f"{self.local_port}:{self.node}:{self.port}", self.login]

    def text(self) -> str:
        """The command and what to open then."""
        return f"{shlex.join(self.words())}\nhttp://localhost:{self.local_port}"

"""How an agent was asked to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.place.fleet.transport import is_loopback

MIN_FREE = 200_000_000
CACHE_BYTES = 20 * 2**30


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where the queue can be reached directly."""

    host: str
    port: int = 6379
    password: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The address, with the password if there is one: never to be shown."""
        from urllib.parse import quote

        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{secret}{self.host}:{self.port}/0"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything a user may say about an agent."""

    server: str
    state: Path
    token: str | None = field(default=None, repr=False)
    name: str = ""
    """In place of the machine's own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    """What jobs may do beside running models: `command`."""
    devices: tuple[str, ...] = ()
    """One slot for each; one slot for the whole machine when empty."""
    ca: Path | None = None
    verify: bool = True
    allow_private_urls: bool = False
    """Whether jobs may connect to this machine and its private networks."""
    allow_env: frozenset[str] = frozenset()
    """Names of environment variables that jobs may refer to."""
    redis: RedisAddress | None = None
    min_free: int = MIN_FREE
    cache_bytes: int = CACHE_BYTES
    grace_s: float = 60.0
    """How long a running attempt may go on once the agent is asked to stop."""
    finish: bool = False
    """Let a running attempt end, however long it takes."""
    address: str = ""
    """Where the agent itself can be asked, if it listens."""

    @property
    def url_policy(self) -> str:
        """Which addresses jobs may connect to: public ones, and this machine where the server is on it."""
        words = ["public", *(["loopback"] if self.allow_private_urls or is_loopback(self.server) else [])]
        return ",".join([*words, *(["private"] if self.allow_private_urls else [])])

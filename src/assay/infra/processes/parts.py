"""The parts of a system on one machine: how each is started, stopped and reached, and whether it works."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.infra.processes.programs import library_path
from assay.infra.record import Keys, token_file

RECORD = "processes.json"
STORES = ("postgresql", "redis", "prometheus")
"""Parts that are programs of others; a system works without each of them."""
OPTIONAL = (*STORES, "agent")
PREPARE = "prepare"
TAG_VARIABLE = "ASSAY_INFRA_TAG"
LABEL = "infra"
"""The label by which the agent of a system is known to its server."""
USER = DATABASE = "assay"
UNPACKED = "programs"
HERE = "127.0.0.1"
# How long a running job may go on once the system is taken down.
_AGENT_GRACE_S = 20.0
_GRACE_S = 15.0
_TIMEOUT_S = 3


@dataclass(frozen=True, slots=True)
class LocalRecord:
    """A system on this machine, as it was asked for and set up."""

    version: str
    """Of assay, when it was last brought up."""
    created_at: float
    tag: str
    """Every process of the system carries it in its environment."""
    host: str
    """Where the server listens; all other parts listen on loopback."""
    ports: Mapping[str, int]
    programs: Mapping[str, str]
    accounts: Mapping[str, str]
    """Under whose name a part runs, where that is not who brought it up."""
    agent: bool = True
    allow: tuple[str, ...] = ()
    """What jobs may do beside running models."""
    made: tuple[str, ...] = ()
    """Folders above its own that were made for it, the lowest first."""

    def has(self, part: str) -> bool:
        """Whether a part belongs to the system."""
        return part in self.ports or (part == "agent" and self.agent)

    @property
    def server_url(self) -> str:
        """Where this machine reaches the server."""
        everywhere = self.host in ("0.0.0.0", "::")  # noqa: S104  (compared, not bound)
        host = HERE if everywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.ports['server']}"

    def database_url(self, keys: Keys) -> str | None:
        """Where the server keeps its records; None for the SQLite file in its folder."""
        port = self.ports.get("postgresql")
        return f"postgresql://{USER}:{keys.database}@{HERE}:{port}/{DATABASE}" if port else None

    def redis_url(self, keys: Keys) -> str | None:
        """Where the queue is; None for the one in the database."""
        port = self.ports.get("redis")
        return f"redis://:{keys.redis}@{HERE}:{port}/0" if port else None

    def address(self, part: str) -> str:
        """Where a part is reached, for people: without secrets."""
        if part == "server":
            return self.server_url
        if part not in self.ports:
            return ""
        scheme = "http" if part == "prometheus" else part
        return f"{scheme}://{HERE}:{self.ports[part]}"


@dataclass(frozen=True, slots=True)
class SystemPart:
    """One process of a system."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    inherits: bool = False
    """Whether it also gets the environment variables of the user."""
    cwd: Path = Path("/")
    account: str | None = None
    stop: signal.Signals = signal.SIGTERM
    """Asks it to end in good order."""
    grace_s: float = _GRACE_S
    once: bool = False
    """Whether it is a step that ends before the next part is started."""


def parts_of(folder: Path, record: LocalRecord, keys: Keys, python: str = sys.executable) -> tuple[SystemPart, ...]:
    """The parts of a system, each after those that it needs."""
    found = []
    if record.has("postgresql"):
        found.append(_postgresql(folder, record))
    if record.has("redis"):
        found.append(_redis(folder, record))
    found += [_prepare(folder, record, keys, python), _server(folder, record, keys, python)]
    if record.has("prometheus"):
        found.append(_prometheus(folder, record))
    if record.has("agent"):
        found.append(_agent(folder, record, python))
    return tuple(found)


def own_words(folder: Path, record: LocalRecord, part: str) -> dict[str, str]:
    """The variables of a program of somebody else: little, and nothing of the user's."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": str(folder / part),
        TAG_VARIABLE: record.tag,
        **library_path(record.programs[part], folder / UNPACKED),
    }


def _postgresql(folder: Path, record: LocalRecord) -> SystemPart:
    own = folder / "postgresql"
    settings = {
        "listen_addresses": HERE,
        "unix_socket_directories": "",  # a path to a socket may be too long, and others could connect to it
        "jit": "off",
    }
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = (record.programs["postgresql"], "-D", str(own / "data"), "-p", str(record.ports["postgresql"]), *words)
    # Its SIGTERM waits until everybody has gone by himself; SIGINT sends them away.
    return SystemPart(
        "postgresql",
        command,
        own_words(folder, record, "postgresql"),
        cwd=own,
        account=record.accounts.get("postgresql"),
        stop=signal.SIGINT,
    )


def _redis(folder: Path, record: LocalRecord) -> SystemPart:
    own = folder / "redis"
    return SystemPart(
        "redis",
        (record.programs["redis"], str(own / "redis.conf")),
        own_words(folder, record, "redis"),
        cwd=own,
        account=record.accounts.get("redis"),
    )


def _prometheus(folder: Path, record: LocalRecord) -> SystemPart:
    own = folder / "prometheus"
    command = (
        record.programs["prometheus"],
        f"--config.file={own / 'prometheus.yml'}",
        f"--storage.tsdb.path={own / 'data'}",
        "--storage.tsdb.retention.time=15d",
        f"--web.listen-address={HERE}:{record.ports['prometheus']}",
        "--log.level=warn",
    )
    return SystemPart(
        "prometheus",
        command,
        own_words(folder, record, "prometheus"),
        cwd=own,
        account=record.accounts.get("prometheus"),
    )


def _prepare(folder: Path, record: LocalRecord, keys: Keys, python: str) -> SystemPart:
    env = {**_server_words(folder, record, keys), **keys.tokens}
    return SystemPart(PREPARE, (python, "-m", "assay.infra.prepare"), env, inherits=True, cwd=folder / "tmp", once=True)


def _server(folder: Path, record: LocalRecord, keys: Keys, python: str) -> SystemPart:
    command = (
        python,
        "-m",
        "assay",
        "serve",
        "--host",
        record.host,
        "--port",
        str(record.ports["server"]),
        "--closed",
        "--log-format",
        "json",
    )
    return SystemPart("server", command, _server_words(folder, record, keys), inherits=True, cwd=folder / "tmp")


def _agent(folder: Path, record: LocalRecord, python: str) -> SystemPart:
    command = (
        python,
        "-m",
        "assay",
        "agent",
        "start",
        "--host",
        record.server_url,
        "--token-file",
        str(token_file(folder, "agent")),
        "--state",
        str(folder / "agent"),
        "--label",
        f"{LABEL}={record.tag}",
        "--grace",
        f"{_AGENT_GRACE_S:g}",
        *(word for one in record.allow for word in ("--allow", one)),
    )
    # What jobs fetch and write on the way lies in the folder too, and is gone with it.
    env = {"ASSAY_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), TAG_VARIABLE: record.tag}
    return SystemPart("agent", command, env, inherits=True, cwd=folder / "tmp", grace_s=_AGENT_GRACE_S + _GRACE_S)


def _server_words(folder: Path, record: LocalRecord, keys: Keys) -> dict[str, str]:
    """The settings of the server; secrets among them are never words of a command, which everybody can read."""
    words = {
        "ASSAY_SERVER_FOLDER": str(folder / "store"),
        "ASSAY_SERVER_DATABASE_URL": record.database_url(keys) or "",
        "ASSAY_SERVER_REDIS_URL": record.redis_url(keys) or "",
        "TMPDIR": str(folder / "tmp"),
        TAG_VARIABLE: record.tag,
    }
    return {name: value for name, value in words.items() if value}


def answer_of(part: str, record: LocalRecord, keys: Keys) -> str | None:
    """What a part says when it is asked whether it works: None for yes, else why not."""
    try:
        if part == "postgresql":
            return _postgresql_health(record, keys)
        if part == "redis":
            return _redis_health(record, keys)
        if part == "prometheus":
            return page(f"http://{HERE}:{record.ports['prometheus']}/-/ready")
        if part == "server":
            return server(record.server_url, keys.reader)
        return agent(record.server_url, keys.reader, record.tag)
    except Exception as problem:  # each client has errors of its own, and all of them mean no
        return without(f"{type(problem).__name__}: {problem}".strip().splitlines()[0], keys)


def page(url: str) -> str | None:
    """None if a page answers well, else what it answers."""
    import httpx

    answer = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False)
    return None if answer.is_success else f"{answer.status_code} {answer.text[:200]}".strip()


def server(url: str, token: str) -> str | None:
    """None if the server of a system is ready, else why not: it is closed to strangers, and knows its own token."""
    import httpx

    if late := page(f"{url}/api/v1/ready"):
        return late
    agents = f"{url}/api/v1/agents?limit=1"
    for who in ({}, {"authorization": f"Bearer {token}"}):
        answer = httpx.get(agents, headers=who, timeout=_TIMEOUT_S, trust_env=False)
        # Whoever begins at the same moment may get the port first, and be well himself.
        if answer.is_success is not bool(who):
            return f"another server than this system's answers at {url}"
    return None


def agent(server_url: str, token: str, tag: str) -> str | None:
    """None if the agent with a tag is known to its server and healthy, else how it is."""
    import httpx

    answer = httpx.get(
        f"{server_url}/api/v1/agents",
        headers={"authorization": f"Bearer {token}"},
        timeout=_TIMEOUT_S,
        params={"limit": 200},
        trust_env=False,
    )
    if not answer.is_success:
        return f"the server does not tell: {answer.status_code}"
    known: list[dict[str, Any]] = answer.json()["items"]
    for one in known:
        if one["profile"]["labels"].get(LABEL) == tag:
            return None if one["healthy"] else f"{one['state']} {one['note']}".strip()
    return "not enrolled yet"


def without(text: str, keys: Keys) -> str:
    """A text in which no secret of the system stands."""
    for secret in (keys.admin, keys.agent, keys.reader, keys.database, keys.redis):
        text = text.replace(secret, "***")
    return text


def _postgresql_health(record: LocalRecord, keys: Keys) -> str | None:
    import psycopg

    with psycopg.connect(record.database_url(keys) or "", connect_timeout=_TIMEOUT_S) as connection:
        connection.execute("SELECT 1")
    return None


def _redis_health(record: LocalRecord, keys: Keys) -> str | None:
    import redis

    with redis.Redis.from_url(record.redis_url(keys) or "", socket_timeout=_TIMEOUT_S) as client:
        client.ping()
    return None

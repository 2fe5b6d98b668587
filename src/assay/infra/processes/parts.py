"""The parts of a system on one machine: how each is started, stopped and reached, and whether it works."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.http import http_client
from assay.infra.record import Keys, token_file, url_of

if TYPE_CHECKING:
    import httpx

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
# How long a running job may continue once the system is taken down.
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
        return part in self.ports or (part == "agent" and self.agent)

    @property
    def server_url(self) -> str:
        return url_of(self.host, self.ports["server"])

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
    stores = {part: _store(folder, record, part) for part in STORES if record.has(part)}
    prometheus = stores.pop("prometheus", None)
    # Secrets are never words of a command, which everybody can read.
    settings = {
        "ASSAY_SERVER_FOLDER": str(folder / "store"),
        "ASSAY_SERVER_DATABASE_URL": record.database_url(keys) or "",
        "ASSAY_SERVER_REDIS_URL": record.redis_url(keys) or "",
        "TMPDIR": str(folder / "tmp"),
        TAG_VARIABLE: record.tag,
    }
    server_env = {name: value for name, value in settings.items() if value}
    prepare = (python, "-m", "assay.infra.prepare")
    serve = (python, "-m", "assay", "serve", "--host", record.host, "--port", str(record.ports["server"]), "--closed")
    parts = [
        *stores.values(),
        SystemPart(PREPARE, prepare, {**server_env, **keys.tokens}, inherits=True, cwd=folder / "tmp", once=True),
        SystemPart("server", (*serve, "--log-format", "json"), server_env, inherits=True, cwd=folder / "tmp"),
        prometheus,
        _agent(folder, record, python) if record.has("agent") else None,
    ]
    return tuple(part for part in parts if part is not None)


def own_words(folder: Path, record: LocalRecord, part: str) -> dict[str, str]:
    """The variables of a program that is not part of assay: little, and nothing of the user's."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": str(folder / part),
        TAG_VARIABLE: record.tag,
        **library_path(record.programs[part], folder / UNPACKED),
    }


def library_path(program: str, unpacked: Path) -> dict[str, str]:
    """The variable by which an unpacked program finds its libraries; nothing for one of the system."""
    if not Path(program).is_relative_to(unpacked):
        return {}
    folders = [*unpacked.glob("usr/lib/*-linux-*"), *unpacked.glob("lib/*-linux-*"), unpacked / "usr/lib"]
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}


def _store(folder: Path, record: LocalRecord, part: str) -> SystemPart:
    """A part that is a program from elsewhere."""
    own, port = folder / part, record.ports[part]
    words: Mapping[str, tuple[str, ...]] = {
        # A path to a socket may be too long, and others could connect to it.
        "postgresql": ("-D", str(own / "data"), "-p", str(port),
                       *(word for setting in (f"listen_addresses={HERE}", "unix_socket_directories=", "jit=off")
                         for word in ("-c", setting))),
        "redis": (str(own / "redis.conf"),),
        "prometheus": (f"--config.file={own / 'prometheus.yml'}", f"--storage.tsdb.path={own / 'data'}",
                       "--storage.tsdb.retention.time=15d", f"--web.listen-address={HERE}:{port}", "--log.level=warn"),
    }  # fmt: skip
    return SystemPart(
        part,
        (record.programs[part], *words[part]),
        own_words(folder, record, part),
        cwd=own,
        account=record.accounts.get(part),
        # The SIGTERM of PostgreSQL waits until everybody has gone by himself; SIGINT sends them away.
        stop=signal.SIGINT if part == "postgresql" else signal.SIGTERM,
    )


def _agent(folder: Path, record: LocalRecord, python: str) -> SystemPart:
    options = {
        "--server": record.server_url,
        "--token-file": str(token_file(folder, "agent")),
        "--state": str(folder / "agent"),
        "--label": f"{LABEL}={record.tag}",
        "--grace": f"{_AGENT_GRACE_S:g}",
    }
    words = [word for option in (*options.items(), *(("--allow", right) for right in record.allow)) for word in option]
    command = (python, "-m", "assay", "agent", "start", *words)
    # What jobs fetch and write on the way lies in the folder too, and is gone with it.
    env = {"ASSAY_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), TAG_VARIABLE: record.tag}
    return SystemPart("agent", command, env, inherits=True, cwd=folder / "tmp", grace_s=_AGENT_GRACE_S + _GRACE_S)


def answer_of(part: str, record: LocalRecord, keys: Keys) -> str | None:
    """What a part says when it is asked whether it works: None for yes, else why not."""
    probes: Mapping[str, Callable[[], str | None]] = {
        "postgresql": lambda: _postgresql_health(record, keys),
        "redis": lambda: _redis_health(record, keys),
        "prometheus": lambda: page(f"http://{HERE}:{record.ports['prometheus']}/-/ready"),
        "server": lambda: server(record.server_url, keys.reader),
        "agent": lambda: agent(record.server_url, keys.reader, record.tag),
    }
    return probed(probes[part], keys)


def probed(probe: Callable[[], str | None], keys: Keys) -> str | None:
    """The answer of a part, without any secret; each client has errors of its own, and all of them mean no."""
    try:
        return probe()
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}".strip().splitlines()[0]
        for secret in (keys.admin, keys.agent, keys.reader, keys.database, keys.redis):
            text = text.replace(secret, "***")
        return text


def _get(url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
    with http_client(timeout_s=_TIMEOUT_S) as client:
        return client.get(url, headers=headers)


def page(url: str) -> str | None:
    """None if a page answers well, else what it answers."""
    answer = _get(url)
    return None if answer.is_success else f"{answer.status_code} {answer.text[:200]}".strip()


def server(url: str, token: str) -> str | None:
    """None if the server of a system is ready, else why not: it is closed to strangers, and knows its own token."""
    if late := page(f"{url}/api/v1/ready"):
        return late
    agents = f"{url}/api/v1/agents?limit=1"
    for who in ({}, {"authorization": f"Bearer {token}"}):
        answer = _get(agents, who)
        # Another process that begins at the same moment may get the port first, and answer well itself.
        if answer.is_success is not bool(who):
            return f"another server than this system's answers at {url}"
    return None


def agent(server_url: str, token: str, tag: str) -> str | None:
    """None if the agent with a tag is known to its server and healthy, else how it is."""
    url, who = f"{server_url}/api/v1/agents?limit=200", {"authorization": f"Bearer {token}"}
    answer = _get(url, who)
    if not answer.is_success:
        return f"the server does not report its state: {answer.status_code}"
    for record in answer.json()["items"]:
        if record["profile"]["labels"].get(LABEL) == tag:
            return None if record["healthy"] else f"{record['state']} {record['note']}".strip()
    return "not enrolled yet"


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

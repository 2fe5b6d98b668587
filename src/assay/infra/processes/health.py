"""Whether each part of a system works: asked for what it is there for, and not only whether it lives."""

from __future__ import annotations

from typing import Any

from assay.infra.keys import Keys
from assay.infra.processes.parts import HERE, LABEL, Local

_TIMEOUT_S = 3


def answer_of(part: str, record: Local, keys: Keys) -> str | None:
    """What a part says when it is asked whether it works: None for yes, else why not."""
    try:
        if part == "postgresql":
            return _postgresql(record, keys)
        if part == "redis":
            return _redis(record, keys)
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


def _postgresql(record: Local, keys: Keys) -> str | None:
    import psycopg

    with psycopg.connect(record.database_url(keys) or "", connect_timeout=_TIMEOUT_S) as connection:
        connection.execute("SELECT 1")
    return None


def _redis(record: Local, keys: Keys) -> str | None:
    import redis

    with redis.Redis.from_url(record.redis_url(keys) or "", socket_timeout=_TIMEOUT_S) as client:
        client.ping()
    return None

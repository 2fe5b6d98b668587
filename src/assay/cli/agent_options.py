"""What the options of `assay agent` mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from assay.agent.settings import AgentSettings, RedisAddress


def named(host: str | None) -> str:
    """The server that was named."""
    from assay.errors import UsageError

    if not host:
        raise UsageError("no server is named", code="no-server", try_="give --host URL, or set ASSAY_SERVER")
    return host


def secret(file: Path | None, token: str | None) -> str | None:
    """The token: from a file, from the environment, or given in sight of everybody."""
    from assay.place.fleet.client import read_token

    if token and file is None:
        typer.echo(
            "warning: --token is visible to everybody on this machine; use --token-file or ASSAY_TOKEN", err=True
        )
        return token
    return read_token(file)


def token_apart(words: list[str]) -> tuple[str, list[str]]:
    """The token among the words of a command, and the other words: everybody can read those of a service."""
    token, others, rest = "", [], iter(words)
    for word in rest:
        if word == "--token":
            token = next(rest, "")
        elif word.startswith("--token="):
            token = word.removeprefix("--token=")
        else:
            others.append(word)
    return token, others


def settings_of(
    host: str | None,
    state: Path | None,
    token_file: Path | None,
    token: str | None,
    *,
    labels: list[str] | None = None,
    allow: list[str] | None = None,
    devices: list[str] | None = None,
    min_free: str = "200MB",
    verify: bool = True,
    redis: RedisAddress | None = None,
    ca: Path | None = None,
    **rest: Any,  # noqa: ANN401  (each is one of the settings)
) -> AgentSettings:
    """Put the options together."""
    from assay.agent.identity import state_folder
    from assay.agent.settings import AgentSettings
    from assay.cli.output import labels_of
    from assay.place.fleet.client import server_url

    if not verify:
        typer.echo("warning: the server's certificate is not checked; anybody in between can read the token", err=True)
    return AgentSettings(
        server=server_url(named(host)),
        state=state_folder(state),
        token=secret(token_file, token),
        labels=labels_of(labels or ()),
        allow=allowed(allow),
        devices=_devices(devices or []),
        min_free=free_size(min_free),
        verify=verify,
        redis=redis,
        ca=ca,
        **rest,
    )


def allowed(allow: list[str] | None) -> frozenset[str]:
    """What jobs may do besides running models."""
    from assay.errors import UsageError

    found = frozenset(allow or ())
    if unknown := found - {"command"}:
        raise UsageError(f"--allow {min(unknown)} is not known", code="allow", try_="--allow command")
    return found


def env_names(given: list[str] | None) -> frozenset[str]:
    """Names of variables that jobs may refer to."""
    from assay.agent.executor import SECRET_VARIABLES
    from assay.errors import UsageError
    from assay.spec.secrets import REFERENCE

    names = frozenset(name for text in given or () for name in text.replace(",", " ").split())
    for name in sorted(names):
        if not REFERENCE.fullmatch(f"${{env:{name}}}"):
            raise UsageError(
                f"{name!r} is no name of an environment variable",
                code="allow-env",
                at="--allow-env",
                try_="write the name alone: --allow-env API_KEY",
            )
        if name in SECRET_VARIABLES:
            raise UsageError(
                f"{name} is the agent's own and no job may have it",
                code="allow-env",
                at="--allow-env",
                try_="give the job a token of its own, in another variable",
            )
    return names


def _devices(names: list[str]) -> tuple[str, ...]:
    from assay.errors import UsageError
    from assay.spec.devices import canonical

    try:
        found = tuple(canonical(name) for name in names)
    except ValueError as problem:
        raise UsageError(str(problem), code="device", at="--device") from None
    if len(set(found)) < len(found):
        raise UsageError("a device is named twice", code="device", at="--device", try_="name each once")
    return found


def free_size(text: str) -> int:
    """A size in bytes."""
    from assay.errors import UsageError
    from assay.units import size_bytes

    try:
        return size_bytes(text)
    except ValueError as problem:
        raise UsageError(str(problem), code="size", at="--min-free") from None


def listen_place(listen: str) -> tuple[str, int]:
    """Host and port of an address to listen at."""
    from assay.errors import UsageError

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{listen!r} is no address to listen at", code="listen", try_="write 127.0.0.1:8081")
    return host.strip("[]"), int(port)


def redis_of(host: str | None, port: int, password_variable: str, server: str) -> RedisAddress | None:
    """Where to take jobs from directly, if so asked."""
    import os

    from assay.agent.settings import RedisAddress
    from assay.place.fleet.client import is_loopback

    if host is None:
        return None
    if is_loopback(f"http://{host}") and not is_loopback(server):
        typer.echo(f"warning: Redis is looked for on this machine, although the server is {server}", err=True)
    return RedisAddress(host, port, os.environ.get(password_variable) if password_variable else None)


def log_to_stderr(level: str) -> None:
    """Write what happens to the error stream."""
    import logging

    from assay.errors import UsageError

    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise UsageError(f"--log-level {level} is not known", code="log-level", try_="debug, info, warning or error")
    logging.basicConfig(level=number, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
    for chatty in ("httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def on_signals(ask: Callable[[bool], None]) -> None:
    """Call a function on SIGTERM and Ctrl-C, with whether it was Ctrl-C."""
    import signal
    from types import FrameType

    def told(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
        ask(number == signal.SIGINT)

    for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), told)


def reachable_at(host: str, port: int) -> str:
    """The address under which others find what listens here."""
    import platform

    name = platform.node() if host in ("0.0.0.0", "::") else host  # noqa: S104  (compared, not bound)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def listen_token(file: Path | None, state: Path) -> str | None:
    """The token that callers need: given, or made once, printed, and kept where only the owner can read it.

    On loopback too: everybody on the machine can connect there.
    """
    import os
    import secrets

    from assay.files import write_whole
    from assay.place.fleet.client import read_token

    given = read_token(file) if file else os.environ.get("ASSAY_AGENT_TOKEN", "").strip() or None
    if given:
        return given
    kept = state / "listen-token"
    if not kept.exists():
        write_whole(kept, secrets.token_urlsafe(32).encode(), mode=0o600)
        typer.echo(f"token for callers (shown once, kept in {kept}): {kept.read_text()}", err=True)
        typer.echo(f"the server calls with it by `assay agents add URL --agent-token-file {kept}`", err=True)
    return read_token(kept)

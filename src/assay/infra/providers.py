"""One way to ask for a system, wherever it is to be; what has no meaning there is refused."""

from __future__ import annotations

import socket
from dataclasses import asdict, replace
from importlib import import_module
from types import ModuleType

from assay.errors import UsageError
from assay.infra.record import InfraOptions, Notify, Status, is_there

# What has a meaning where; an option that is silently dropped would be a promise that is not kept.
_MEANING = {
    "processes": ("with_", "host", "port", "without", "allow", "fetch", "within_s"),
    "compose": ("with_", "host", "port", "allow", "within_s"),
    "kubernetes": ("namespace", "context", "values", "settings", "within_s"),
    "aws": ("values", "settings"),
}
_EVERYWHERE = ("name", "yes")
_FLAGS = {"with_": "--with", "fetch": "--no-fetch", "settings": "--set", "within_s": "--within"}


def create(provider: str, options: InfraOptions, notify: Notify) -> Status:
    """Bring a system up."""
    contained = options.with_ in ("podman", "docker")
    if provider == "local":
        refuse_meaningless(options, "compose" if contained else "processes")
        if unknown := set(options.allow) - {"command"}:
            raise UsageError(f"--allow {min(unknown)} is not known", code="allow", try_="--allow command")
        _refuse_other(options.name, contained=contained)
        options = replace(options, host=options.host or "127.0.0.1")
        _refuse_foreign(str(options.host))
    else:
        refuse_meaningless(options, provider)
    status: Status = _module(provider, contained=contained).create(options, notify)
    return status


def status(provider: str, name: str) -> Status:
    status: Status = _module(provider, contained=is_there(name, "compose")).status(name)
    return status


def destroy(provider: str, name: str, notify: Notify, *, keep_data: bool, yes: bool) -> None:
    """Take a system down."""
    module = _module(provider, contained=is_there(name, "compose"))
    module.destroy(name, notify, keep_data=keep_data, **({"yes": yes} if provider == "aws" else {}))


def _module(provider: str, *, contained: bool) -> ModuleType:
    """What brings systems up there; loaded only when it is asked for."""
    return import_module(f"assay.infra.{'compose' if provider == 'local' and contained else provider}")


def refuse_meaningless(options: InfraOptions, where: str) -> None:
    """Raise if something is asked for that has no meaning there."""
    said, unsaid = asdict(options), asdict(InfraOptions())
    for name in said:
        if name not in (*_MEANING[where], *_EVERYWHERE) and said[name] != unsaid[name]:
            flag = _FLAGS.get(name, f"--{name}")
            raise UsageError(
                f"{flag} has no meaning for {where}",
                code="option",
                at=flag,
                try_="leave it out; `assay infra create --help` says where each belongs",
            )


def _refuse_foreign(host: str) -> None:
    """Raise if no process can listen on an address here."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except OSError as problem:
        raise UsageError(
            f"nothing can listen on {host!r} here: {problem.strerror or problem}",
            code="host",
            at="--host",
            try_="use 127.0.0.1, or 0.0.0.0 for all addresses of this machine",
        ) from None


def _refuse_other(name: str, *, contained: bool) -> None:
    there = is_there(name, "compose")
    if there != contained and (there or is_there(name, "processes")):
        how = "processes" if contained else "containers"
        raise UsageError(
            f"there is a local system called {name}, made of {how}",
            code="infra",
            at="--with",
            try_="destroy it first, or use another --name",
        )

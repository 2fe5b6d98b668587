"""One way to ask for a system, wherever it is to be; what has no meaning there is refused."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.errors import UsageError
from assay.infra.record import DEFAULT, Status

Tell = Callable[[str], None]
# What has a meaning where; an option that is silently dropped would be a promise that is not kept.
_MEANING = {
    "processes": ("with_", "host", "port", "without", "allow", "fetch", "within_s"),
    "compose": ("with_", "host", "port", "allow", "within_s"),
    "kubernetes": ("namespace", "context", "values", "settings", "within_s"),
    "aws": ("values", "settings"),
}
_EVERYWHERE = ("name", "yes")
_FLAGS = {"with_": "--with", "fetch": "--no-fetch", "settings": "--set", "within_s": "--within"}


@dataclass(frozen=True, slots=True)
class InfraOptions:
    """Everything that can be asked for when a system is brought up; None and empty for what was not said."""

    name: str = DEFAULT
    with_: str | None = None
    host: str | None = None
    port: int | None = None
    without: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    fetch: bool = True
    namespace: str | None = None
    context: str | None = None
    values: tuple[Path, ...] = ()
    settings: tuple[str, ...] = ()
    within_s: float = 600.0
    yes: bool = False


def create(provider: str, options: InfraOptions, tell: Tell) -> Status:
    """Bring a system up.

    Raises:
        UsageError: if something asked for has no meaning there, or something needed is missing.
        MeasureError: if it does not get healthy.
    """
    if provider == "local":
        return _create_local(options, tell)
    refuse_meaningless(options, provider)
    if provider == "kubernetes":
        from assay.infra import kubernetes

        there = kubernetes.KubernetesOptions(
            options.name, options.namespace, options.context, options.values, options.settings, options.within_s
        )
        return kubernetes.create(there, tell)
    from assay.infra import aws

    return aws.create(aws.AwsOptions(options.name, options.values, options.settings, options.yes), tell)


def status(provider: str, name: str) -> Status:
    if provider == "local":
        from assay.infra import compose, local

        return compose.status(name) if compose.is_there(name) else local.status(name)
    if provider == "kubernetes":
        from assay.infra import kubernetes

        return kubernetes.status(name)
    from assay.infra import aws

    return aws.status(name)


def destroy(provider: str, name: str, tell: Tell, *, keep_data: bool, yes: bool) -> None:
    """Take a system down.

    Raises:
        UsageError: if that cannot be done as asked.
        MeasureError: if something stays.
    """
    if provider == "local":
        from assay.infra import compose, local

        if compose.is_there(name):
            compose.destroy(name, tell, keep_data=keep_data)
        else:
            local.destroy(name, tell, keep_data=keep_data)
    elif provider == "kubernetes":
        from assay.infra import kubernetes

        kubernetes.destroy(name, tell, keep_data=keep_data)
    else:
        from assay.infra import aws

        aws.destroy(name, tell, keep_data=keep_data, yes=yes)


def refuse_meaningless(options: InfraOptions, where: str) -> None:
    """Raise if something is asked for that has no meaning there.

    Raises:
        UsageError: with the option.
    """
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


def _create_local(options: InfraOptions, tell: Tell) -> Status:
    from assay.infra import compose, local

    contained = options.with_ in ("podman", "docker")
    refuse_meaningless(options, "compose" if contained else "processes")
    if unknown := set(options.allow) - {"command"}:
        raise UsageError(f"--allow {min(unknown)} is not known", code="allow", try_="--allow command")
    _refuse_other(options.name, contained=contained)
    host = options.host or "127.0.0.1"
    _refuse_foreign(host)
    if contained:
        there = compose.ComposeOptions(
            options.name, str(options.with_), host, options.port, options.allow, options.within_s
        )
        return compose.create(there, tell)
    return local.create(
        local.LocalOptions(
            options.name, host, options.port, options.without, options.allow, options.fetch, options.within_s
        ),
        tell,
    )


def _refuse_foreign(host: str) -> None:
    """Raise if nobody can listen on an address here."""
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
    """Raise if a system of this name is there, and made the other way."""
    from assay.infra import compose, local

    if compose.is_there(name) != contained and (compose.is_there(name) or local.is_there(name)):
        how = "containers" if not contained else "processes"
        raise UsageError(
            f"there is a local system called {name}, made of {how}",
            code="infra",
            at="--with",
            try_="destroy it first, or use another --name",
        )

"""What a service's section of the file means: its words, environment and folder, with free or given ports put in."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import MeasureError
from assay.spec.limits import split_words
from assay.spec.references import LOOPBACK, REFERENCE, resolve_secrets, services_in
from assay.spec.references import Ports as Ports

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One service as it was asked for: the plain form of `assay.spec.benchmark.Service`, light to load."""

    name: str
    image: str | None = None
    command: tuple[str, ...] | None = None
    cwd: str | None = None
    port: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    container: str = "auto"
    mounts: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    ready_http: str | None = None
    ready_tcp: bool = False
    ready_command: tuple[str, ...] | None = None
    within_s: float = 300.0
    unused_image: str | None = None
    """With `container: none`, the image that the file names and that is not run."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> ServiceSpec:
        """Read it back from JSON."""
        lists = {key: tuple(plain[key]) if plain[key] is not None else None for key in ("command", "ready_command")}
        return cls(**{**plain, **lists})

    @property
    def at(self) -> str:
        """Where it stands in the file."""
        return f"services.{self.name}"


def words(command: str | tuple[str, ...] | None, at: str) -> tuple[str, ...] | None:
    """A command as words: a string is split like a shell would, and no shell runs it."""
    if command is None:
        return None
    try:
        split = split_words(command) if isinstance(command, str) else tuple(command)
    except ValueError as broken:
        raise MeasureError(
            f"the command {command!r} cannot be split into words: {broken}",
            code="service-command",
            at=at,
            try_="close its quotes, or write it as a list",
        ) from None
    if not split or not split[0].strip():
        raise MeasureError("the command is empty", code="service-command", at=at, try_="say what starts the service")
    if any(REFERENCE.search(word) for word in split):
        raise MeasureError(
            "a command cannot hold ${env:…}: every user of the machine could read it in the list of processes",
            code="secret",
            at=at,
            try_="put it under `env`; the service finds it in its environment",
        )
    return split


def refuse_meaningless(wanted: ServiceSpec) -> None:
    """Raise if a service says nothing to start, or has keys that would do nothing."""

    def refuse(message: str, try_: str) -> None:
        raise MeasureError(message, code="service-command", at=wanted.at, try_=try_)

    if not _NAME.fullmatch(wanted.name):
        refuse(
            f"{wanted.name!r} cannot be the name of a service: its log files are named after it",
            "use letters, digits, _ - and .",
        )
    if wanted.image is None and wanted.command is None:
        refuse(f"the service {wanted.name} has neither a command nor an image", "say what starts it")
    if wanted.image is None and wanted.mounts:
        refuse("mounts would do nothing for a plain process", "remove them, or give an image and what runs it")
    if wanted.image is None and wanted.container != "auto":
        refuse(f"container: {wanted.container} would do nothing without an image", "remove it, or give an image")
    if wanted.image is not None and wanted.cwd is not None and not wanted.cwd.startswith("/"):
        refuse(
            f"cwd is {wanted.cwd!r}, but a container has its own folders",
            "write the whole path of a folder in the container, and mount it if it lies here",
        )


def named(wanted: ServiceSpec) -> frozenset[str]:
    """The other services that a service names by `{port:NAME}` or `{host:NAME}`."""
    texts = (*(wanted.command or ()), *(wanted.ready_command or ()), wanted.ready_http or "", *wanted.env.values())
    return services_in(texts)


def environment(wanted: ServiceSpec, ports: Ports) -> dict[str, str]:
    """What the file and we add to a service's environment, secrets put in."""
    own = {name: ports.fill(resolve_secrets(value)) for name, value in wanted.env.items()}
    port = str(ports.own)
    return {"PORT": port, "ASSAY_PORT": port, "HOST": ports.host, "ASSAY_HOST": ports.host, **own}


def folder(wanted: ServiceSpec, base: Path) -> Path:
    """Working folder of a plain process."""
    path = base / wanted.cwd if wanted.cwd else base
    if not path.is_dir():
        raise MeasureError(
            f"the working folder {str(path)!r} is not there",
            code="service-command",
            at=f"{wanted.at}.cwd",
            try_="cwd is relative to the benchmark file's folder",
        )
    return path.resolve()


def program_and_words(
    given: tuple[str, ...], base: Path, path: str | None, which: Callable[..., str | None] = shutil.which
) -> list[str]:
    """The words of a plain process with its program found: relative to the file's folder, or on the PATH."""
    program = given[0]
    if program in ("python", "python3") and which(program, path=path) is None:
        program = sys.executable
    elif program == "assay" and which(program, path=path) is None:  # started by its path, as `.venv/bin/assay`
        return [sys.executable, "-m", "assay", *given[1:]]
    elif os.sep in program or (os.altsep and os.altsep in program):
        program = str((base / program).absolute())
    return [program, *given[1:]]


HOST = LOOPBACK
# What servers say when another process has their port; each language has its own words for it.
_TAKEN = re.compile(
    r"address (is )?already in use|address in use|eaddrinuse|errno 98\b|errno 48\b|wsaeaddrinuse|winerror 10048"
    r"|port \S* ?(is )?already (in use|allocated)|port \S* ?is in use|(could ?n[o']t|cannot|failed to|unable to) bind",
    re.IGNORECASE,
)


def free_port(but: Container[int] = (), host: str = HOST) -> int:
    """A free port of an address, other than those given away before."""
    while True:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        if port not in but:
            return port


def refuse_taken(port: int, at: str, host: str = HOST) -> None:
    """Raise if a process listens on a port."""
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


def listener(*ports: int) -> int | None:
    """The process that listens on one of these ports; None where none does or the system does not say."""
    import psutil

    with suppress(psutil.Error, OSError, RuntimeError):  # only an administrator may look
        for socket_ in psutil.net_connections(kind="tcp"):
            if socket_.status == psutil.CONN_LISTEN and socket_.laddr and socket_.laddr.port in ports and socket_.pid:
                return int(socket_.pid)
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

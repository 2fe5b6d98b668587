"""Services started for a benchmark: processes or containers, ready before they are used, and always ended.

`started` holds services for one run, `held` for all runs of a job; both are a keeper process with a lifeline.
Log files cannot grow without end: they keep the beginning and the last part of what a service writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from assay.errors import MeasureError
from assay.folders import images_folder
from assay.run.processes import (
    GRACE_S,
    HURRIED_GRACE_S,
    IN_GOOD_ORDER,
    TAG_VARIABLE,
    kill_tree,
    sweep,
    with_own_programs,
)
from assay.run.services.containers import sweep_containers
from assay.run.services.discovery import announced
from assay.run.services.plan import HOST, ServiceSpec, refuse_meaningless, words
from assay.spec.references import redact

if TYPE_CHECKING:
    from assay.spec.benchmark import Service


How = Literal["process", "apptainer", "podman", "charliecloud", "docker", "kubernetes"]
TAIL_LINES = 40
_TAIL_BYTES = 65536


@dataclass(frozen=True, slots=True)
class RunningService:
    """One service, ready to be used. Moments are of `time.perf_counter_ns`, which its machine's processes share."""

    name: str
    host: str
    port: int
    base_url: str
    started_ns: int
    """Just before its process was made."""
    ready_ns: int
    """When it first answered that it is ready."""
    pid: int | None
    """Its first process on this machine; None where that cannot be seen, and where it runs on another one."""
    how: How
    stdout: Path
    stderr: Path
    facts: Mapping[str, str] = field(default_factory=dict)
    """How it was started: the command as written (no secret is in it), the image and its digest."""
    secrets: tuple[str, ...] = ()
    """Names of the environment variables that its secrets come from."""

    @property
    def start_to_ready_s(self) -> float:
        """From its start to the first time it was ready."""
        return (self.ready_ns - self.started_ns) / 1e9


@dataclass(frozen=True, slots=True)
class ServiceExit:
    """How a service ended that should still run."""

    code: int  # negative: killed by that signal
    at_ns: int

    def __str__(self) -> str:
        return exit_text(self.code)


def exit_of(running: RunningService) -> ServiceExit | None:
    """How a service ended by itself; None while it runs."""
    try:
        record = json.loads(exit_file(running.stdout).read_text())
    except (OSError, ValueError):
        return None
    return ServiceExit(record["code"], record["at_ns"])


def refuse_ended(services: Iterable[RunningService]) -> None:
    """Raise if one of these services has ended by itself."""
    for service in services:
        if (ending := exit_of(service)) is not None:
            after_s = (ending.at_ns - service.started_ns) / 1e9
            raise MeasureError(
                f"the service {service.name} {ending}, {after_s:.1f} s after its start{log_excerpt(log_tail(service))}",
                code="service-ended",
                at=f"services.{service.name}",
                try_="look at what it wrote last; was there enough memory for it?",
            )


def log_tail(running: RunningService, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The last lines that a service wrote: those of its stderr, or of its stdout where stderr is empty."""
    return last_words(running.stdout, running.stderr, running.secrets, lines)


def last_words(stdout: Path, stderr: Path, secrets: Iterable[str], lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The same by its files, with the values of its secrets hidden."""
    names = tuple(secrets)
    return tuple(redact(line, names) for line in tail_of(stderr, lines) or tail_of(stdout, lines))


def tail_of(path: Path, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The last lines of a file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return tuple(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ()


def log_excerpt(lines: Iterable[str]) -> str:
    """Log lines as the end of a message."""
    written = [line for line in lines if line.strip()]
    return (
        "".join(("; it wrote last:", *(f"\n    {line[:500]}" for line in written[-10:])))
        if written
        else "; it wrote nothing"
    )


def exit_text(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def exit_file(stdout: Path) -> Path:
    """Where it is written how a service ended; beside its log, so that every process finds it."""
    return stdout.with_suffix(".exit")


HEAD_BYTES = 2**20
TAIL_BYTES = 4 * 2**20
_READ_BYTES = 2**16


class Pump(threading.Thread):
    """Reads a pipe to its end, as fast as it comes, so that the service never waits for us."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        super().__init__(name=f"pump-{path.name}", daemon=True)
        self._pipe, self._log = pipe, BoundedLog(path)
        self.start()

    def run(self) -> None:
        """Read until every process that holds the other end is gone."""
        read = self._pipe.read1 if hasattr(self._pipe, "read1") else self._pipe.read
        with self._pipe:
            while chunk := read(_READ_BYTES):
                self._log.write(chunk)
        self._log.close()


class BoundedLog:
    """A file with the first and the last bytes of a stream; readable at any time, its lines in order.

    When it has grown by as much again as its last part may hold, the middle is taken out, which costs less per byte
    than the writing itself.
    """

    def __init__(self, path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._path, self._head, self._tail = path, head, tail
        self._size = self._dropped = 0
        self._file: IO[bytes] | None = path.open("wb", buffering=0)

    def write(self, chunk: bytes) -> None:
        """Add bytes; on a full disk they are counted and lost, and the service continues."""
        try:
            if self._file is None:
                self._file = self._path.open("ab", buffering=0)
            self._file.write(chunk)
            self._size += len(chunk)
            if self._size > self._head + 2 * self._tail:
                self._shorten()
        except OSError:
            self._dropped += len(chunk)

    def close(self) -> None:
        """Leave the file within its bounds."""
        try:
            if self._size > self._head + self._tail:
                self._shorten()
        except OSError:
            return
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _shorten(self) -> None:
        """Write the head and the tail to a new file, which replaces the old one atomically."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with self._path.open("rb") as old:
            head = old.read(self._head)
            old.seek(-self._tail, 2)
            tail = old.read(self._tail)
        # The old mark, if there was one, lies right after the head: it is taken out with the bytes that it stands for.
        self._dropped += self._size - len(head) - len(tail)
        mark = b"\n[... %d bytes left out ...]\n" % self._dropped
        partial = self._path.with_name(f"{self._path.name}.part")
        partial.write_bytes(head + mark + tail)
        partial.replace(self._path)
        self._size = len(head) + len(tail)
        self._file = self._path.open("ab", buffering=0)


Notify = Callable[[str], None]
KEEPER_LOG = "keeper.log"
# Ending by force and removing containers come after the time that services are given.
_AFTER_GRACE_S = 20.0


@contextmanager
def started(
    services: Mapping[str, Service],
    base: Path,
    scratch: Path,
    *,
    known: Mapping[str, RunningService] | None = None,
    notify: Notify | None = None,
    host: str = HOST,
    logs: Path | None = None,
    tag: str = "",
) -> Iterator[Mapping[str, RunningService]]:
    """Start services in the order of the file, give them when all are ready, and end them afterwards.

    Args:
        notify: called about once a second with what is waited for.
        logs: another folder for their log files, which may lie on a shared file system.
        tag: what their processes are known by; that of the run when left out.
    """
    if not services:
        yield {}
        return
    tag = tag or os.environ.get(TAG_VARIABLE) or uuid.uuid4().hex
    with (
        _keeper(_order(services, base, scratch, tag, known or {}, host, logs), scratch, tag) as keeper,
        announced(_ready(keeper, scratch, notify)) as ready,
    ):
        yield ready


@contextmanager
def held(
    services: Mapping[str, Service],
    base: Path,
    folder: Path,
    *,
    known: Mapping[str, RunningService] | None = None,
    notify: Notify | None = None,
    host: str = HOST,
    logs: Path | None = None,
) -> Iterator[Mapping[str, RunningService]]:
    """Start the services that all runs of a job share, in the process that starts the runs.

    They have a tag of their own, so that the sweep after a run does not take them; it is swept here at the end.

    Args:
        folder: for what is kept about them on this machine, and for their log files.
    """
    if not services:
        yield {}
        return
    tag = uuid.uuid4().hex
    try:
        with started(services, base, folder, known=known, notify=notify, host=host, logs=logs, tag=tag) as ready:
            yield ready
    finally:
        sweep(tag)
        sweep_containers(tag, folder)


@contextmanager
def _keeper(order: str, scratch: Path, tag: str) -> Iterator[subprocess.Popen[bytes]]:
    with (scratch / KEEPER_LOG).open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "assay.run.services.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**with_own_programs(os.environ), TAG_VARIABLE: tag},
            start_new_session=True,  # Ctrl-C is for us; it hears of it by its lifeline
        )
    grace_s = HURRIED_GRACE_S
    try:
        _say(keeper, order.encode() + b"\n")
        yield keeper
        grace_s = GRACE_S
    except Exception:
        grace_s = GRACE_S
        raise
    finally:
        _let_go(keeper, grace_s, tag, scratch)


def _let_go(keeper: subprocess.Popen[bytes], grace_s: float, tag: str, scratch: Path) -> None:
    """Cut the lifeline and wait until everything is ended; a second Ctrl-C ends it by force."""
    try:
        if grace_s == GRACE_S:
            _say(keeper, IN_GOOD_ORDER)
        with suppress(OSError):
            keeper.stdin.close()  # type: ignore[union-attr]
        keeper.wait(timeout=grace_s + _AFTER_GRACE_S)
    except BaseException as problem:
        # Only what is below the keeper: in a run, its tag is also that of the process that measures.
        kill_tree(keeper.pid, f"below-{tag}")
        keeper.wait()
        sweep_containers(tag, scratch)
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
    finally:
        keeper.stdout.close()  # type: ignore[union-attr]


def _say(keeper: subprocess.Popen[bytes], said: bytes) -> None:
    with suppress(OSError):  # it has ended; its report says why
        keeper.stdin.write(said)  # type: ignore[union-attr]
        keeper.stdin.flush()  # type: ignore[union-attr]


def _ready(keeper: subprocess.Popen[bytes], scratch: Path, notify: Notify | None) -> dict[str, RunningService]:
    """Follow what the keeper tells until all services are ready."""
    ready: dict[str, RunningService] = {}
    for line in keeper.stdout or ():
        said: dict[str, Any] = json.loads(line)
        event = said.pop("event")
        if event == "waiting" and notify is not None:
            notify(f"{said['name']} not ready after {said['seconds']:.0f} s: {said['answer']}")
        elif event == "ready":
            ready[said["name"]] = _running(said)
        elif event == "failed":
            raise MeasureError(said["message"], code=said["code"], at=said["at"], try_=said["try_"])
        elif event == "all":
            return ready
    lines = "\n".join(tail_of(scratch / KEEPER_LOG, 10))
    raise MeasureError(
        f"the process that keeps the services ended: {lines or 'it wrote nothing'}",
        code="service",
        at="services",
        try_="was it killed for memory?",
    )


def _running(said: Mapping[str, Any]) -> RunningService:
    paths = {key: Path(said[key]) for key in ("stdout", "stderr")}
    return RunningService(**{**said, **paths, "secrets": tuple(said["secrets"])})


def _order(
    services: Mapping[str, Service],
    base: Path,
    scratch: Path,
    tag: str,
    known: Mapping[str, RunningService],
    host: str,
    logs: Path | None,
) -> str:
    """The order for the keeper; secrets stay references in it, which the keeper resolves itself."""
    specs = [service_spec(name, service) for name, service in services.items()]
    for spec in specs:
        refuse_meaningless(spec)
    return json.dumps(
        {
            "base": str(base.absolute()),
            "scratch": str(scratch.absolute()),
            "tag": tag,
            "host": host,
            "images": str(images_folder()),
            "logs": None if logs is None else str(logs.absolute()),
            "known": {name: (address.host, address.port) for name, address in known.items()},
            "services": [asdict(spec) for spec in specs],
        }
    )


def service_spec(name: str, service: Service) -> ServiceSpec:
    """A service's section in its plain form; with `container: none` its image is only a remark."""
    at = f"services.{name}"
    plain = service.container == "none"
    return ServiceSpec(
        name=name,
        image=None if plain else service.image,
        command=words(service.command, f"{at}.command"),
        cwd=service.cwd,
        port=service.port,
        env=service.env,
        container="auto" if plain else service.container,
        mounts=service.mounts,
        gpus=service.needs.gpus,
        ready_http=service.ready.http,
        ready_tcp=service.ready.tcp,
        ready_command=words(service.ready.command, f"{at}.ready.command"),
        within_s=service.ready.within,
        unused_image=service.image if plain else None,
    )

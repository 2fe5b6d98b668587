"""Launch of one service: as a process or as a container, on a port of its own, until it is ready."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, cast

from assay.errors import MeasureError
from assay.run.processes import TAG_VARIABLE, descendants, end_gracefully
from assay.run.programs import advice_for
from assay.run.services import How, Pump, RunningService, containers, exit_file, exit_text, last_words, log_excerpt
from assay.run.services.plan import (
    HOST,
    Ports,
    ServiceSpec,
    environment,
    folder,
    free_port,
    listener,
    name_of,
    program_and_words,
    refuse_meaningless,
    refuse_taken,
    speaks_of_a_taken_port,
)
from assay.spec.references import references

# A port that was free a moment ago can be taken when the service asks for it; five times in a row is no chance.
TRIES = 5
_NOTIFY_EVERY_S = 1.0
_LAST_WORDS_S = 1.0

Notify = Callable[[str, float, str], None]
"""Called while a service is not ready, with its name, since when (s), its last answer."""


class ServiceAddress(NamedTuple):
    """Where a service is reached."""

    host: str
    port: int


@dataclass(slots=True)
class ServiceProcess:
    """A service that was started and is not yet ended."""

    wanted: ServiceSpec
    process: subprocess.Popen[bytes]
    pumps: tuple[Pump, Pump]
    port: int
    started_ns: int
    stdout: Path
    stderr: Path
    box: containers.Container | None = None
    facts: dict[str, str] = field(default_factory=dict)
    ending: bool = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the variables that its secrets come from."""
        return tuple(sorted(set(references(self.wanted.env))))

    def end(self, until_s: float) -> None:
        """End it and everything it started."""
        self.ending = True
        end_gracefully(self.process, until_s)
        if self.box is not None:
            containers.runtime_for(self.box.runtime).remove(self.box)

    def flush(self) -> None:
        """Wait a little for what it wrote last."""
        for pump in self.pumps:
            pump.join(timeout=_LAST_WORDS_S)

    def last_words(self) -> tuple[str, ...]:
        """The last lines that it wrote, after waiting a little for those still on their way."""
        self.flush()
        return last_words(self.stdout, self.stderr, self.secrets)


class SpawnGate:
    """Every process is made inside it; once it is closed, none is: so none is missed when all are ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: list[ServiceProcess] = []
        self._closed = False

    def make(self, maker: Callable[[], ServiceProcess]) -> ServiceProcess:
        """Make a process, unless it is too late."""
        with self._lock:
            if self._closed:
                raise MeasureError("the services are being ended", code="service", at="services")
            self._children.append(child := maker())
            return child

    def close(self) -> list[ServiceProcess]:
        """Let no further process be made; return those that were."""
        with self._lock:
            self._closed = True
            return list(self._children)


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What all services of a run share."""

    base: Path  # the benchmark file's folder
    scratch: Path
    tag: str
    gate: SpawnGate
    notify: Notify
    host: str = HOST
    """The address that they listen on: the loopback, or a node's own where other nodes use them."""
    images: Path = Path("images")
    """Where container images are kept."""
    logs: Path | None = None
    """Where they write, under their names alone; the scratch folder when left out."""

    def log_file(self, name: str, stream: str) -> Path:
        """The file that a service's `out` or `err` goes to."""
        return self.scratch / f"service-{name}.{stream}" if self.logs is None else self.logs / f"{name}.{stream}"


def start(wanted: ServiceSpec, others: Mapping[str, ServiceAddress], setting: LaunchContext) -> RunningService:
    """Start a service and wait until it is ready; a chosen port that was taken meanwhile is replaced."""
    refuse_meaningless(wanted)
    tried = {address.port for address in others.values()}
    for attempt in range(TRIES):
        port = wanted.port or free_port(tried, setting.host)
        tried.add(port)
        if wanted.port is not None:
            refuse_taken(port, f"{wanted.at}.port", setting.host)
        other_ports = {name: address.port for name, address in others.items()}
        hosts = {name: address.host for name, address in others.items()}
        ports = Ports(port, other_ports, wanted.at, setting.host, hosts)
        child = _launch(wanted, ports, setting)
        try:
            return _await_ready(child, ports, setting)
        except MeasureError as failure:
            retry = wanted.port is None and attempt + 1 < TRIES and failure.problem.code == "service-ended"
            if not (retry and speaks_of_a_taken_port(child.last_words())):
                raise
            child.end(time.monotonic())
    raise AssertionError("the last try returns or raises")


def _launch(wanted: ServiceSpec, ports: Ports, setting: LaunchContext) -> ServiceProcess:
    stdout, stderr = setting.log_file(wanted.name, "out"), setting.log_file(wanted.name, "err")
    exit_file(stdout).unlink(missing_ok=True)
    added = {**environment(wanted, ports), TAG_VARIABLE: setting.tag}
    box, facts = None, {"command": " ".join(wanted.command or ())}
    if wanted.image is None:
        path = added.get("PATH", os.environ.get("PATH"))
        given = tuple(ports.fill(word) for word in wanted.command or ())
        command, cwd = program_and_words(given, setting.base, path), folder(wanted, setting.base)
        env = {"PYTHONUNBUFFERED": "1", **os.environ, **added}
        facts |= {"image_not_used": wanted.unused_image} if wanted.unused_image else {}
    else:
        name = f"assay-{uuid.uuid4().hex[:12]}"
        box = containers.make_box(wanted, ports, added, setting.base, name=name, tag=setting.tag)
        box, image_facts = _image(box, wanted, setting)
        facts |= image_facts
        containers.mark(box, setting.scratch)
        way = containers.runtime_for(box.runtime)
        command, cwd = way.words(box), setting.base
        env = way.environment(box, {**os.environ, TAG_VARIABLE: setting.tag})

    def make() -> ServiceProcess:
        started_ns = time.perf_counter_ns()
        process = _made(wanted, command, cwd, env)
        pumps = (Pump(cast("IO[bytes]", process.stdout), stdout), Pump(cast("IO[bytes]", process.stderr), stderr))
        return ServiceProcess(wanted, process, pumps, ports.own, started_ns, stdout, stderr, box, facts)

    child = setting.gate.make(make)
    threading.Thread(target=_note_ending, args=(child,), daemon=True).start()
    return child


def _image(
    box: containers.Container, wanted: ServiceSpec, setting: LaunchContext
) -> tuple[containers.Container, dict[str, str]]:
    """The box with its image fetched, and what that image is; fetching it is no part of a start."""
    way = containers.runtime_for(box.runtime)
    facts = way.facts(box)
    if "image_id" in facts or "image_digest" in facts:
        return box, facts
    setting.notify(wanted.name, 0.0, f"the image {box.image} is being fetched")
    asked = box.image
    box = way.fetched(box, setting.images, wanted.within_s)
    return box, {**way.facts(box), **({"image_asked": asked} if box.image != asked else {})}


def _made(wanted: ServiceSpec, command: list[str], cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise MeasureError(
            f"cannot start {command[0]!r}: {reason}",
            code="service-command",
            at=f"{wanted.at}.command",
            try_=advice_for(command[0], failure, env.get("PATH")),
        ) from None


def _await_ready(child: ServiceProcess, ports: Ports, setting: LaunchContext) -> RunningService:
    wanted, question = child.wanted, _question(child, ports, setting)
    begin_s = time.monotonic()
    until_s, reported_s = begin_s + wanted.within_s, begin_s
    complete: str | None = None
    for step_s in steps():
        answer = question.probe(until_s - time.monotonic())
        ready_ns = time.perf_counter_ns()
        answer = answer or _stranger(child)
        if child.process.poll() is not None:
            raise _ended_early(child)
        if answer is None:
            return _running(child, ready_ns, setting.host)
        now_s = time.monotonic()
        if now_s >= until_s:
            # The last question may have had no time left for its answer: what the one before it answered says more.
            raise _never_ready(child, complete or answer)
        complete = answer
        if now_s - reported_s >= _NOTIFY_EVERY_S:
            reported_s = now_s
            setting.notify(wanted.name, now_s - begin_s, answer)
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=min(step_s, until_s - now_s))
    raise AssertionError("the steps never end")


def _stranger(child: ServiceProcess) -> str | None:
    """Who answered in the service's place, having taken its port; None when it was the service, or unknown."""
    holder = listener(child.port) if child.box is None else None
    if holder is None or any(process.pid == holder for process in descendants(os.getpid())):
        return None
    return f"port {child.port} is answered by {name_of(holder)}, not by the service"


def _question(child: ServiceProcess, ports: Ports, setting: LaunchContext) -> Question:
    wanted = child.wanted
    command = None
    if wanted.ready_command is not None:
        given = tuple(ports.fill(word) for word in wanted.ready_command)
        command = tuple(program_and_words(given, setting.base, os.environ.get("PATH")))
    return Question(
        port=child.port,
        host=setting.host,
        http=None if wanted.ready_http is None else ports.fill(wanted.ready_http),
        tcp=wanted.ready_tcp,
        command=command,
        env={**os.environ, **environment(wanted, ports), TAG_VARIABLE: setting.tag},
        cwd=folder(wanted, setting.base) if wanted.image is None else setting.base,
    )


def _running(child: ServiceProcess, ready_ns: int, host: str) -> RunningService:
    how: How = "process" if child.box is None else child.box.runtime.kind
    pid: int | None = child.process.pid
    if child.box is not None:
        pid = containers.runtime_for(child.box.runtime).first_pid(child.box, child.process.pid)
    return RunningService(
        name=child.wanted.name,
        host=host,
        port=child.port,
        base_url=f"http://{f'[{host}]' if ':' in host else host}:{child.port}",
        started_ns=child.started_ns,
        ready_ns=ready_ns,
        pid=pid,
        how=how,
        stdout=child.stdout,
        stderr=child.stderr,
        facts=dict(child.facts),
        secrets=child.secrets,
    )


def _note_ending(child: ServiceProcess) -> None:
    """Write down when a service ends by itself, for the process that measures it."""
    code = child.process.wait()
    if not child.ending:
        path = exit_file(child.stdout)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps({"code": code, "at_ns": time.perf_counter_ns()}))
        partial.replace(path)


def _ended_early(child: ServiceProcess) -> MeasureError:
    after_s = (time.perf_counter_ns() - child.started_ns) / 1e9
    how = exit_text(child.process.returncode)
    return MeasureError(
        f"the service {child.wanted.name} {how} {after_s:.1f} s after its start, before it was ready"
        f"{log_excerpt(child.last_words())}",
        code="service-ended",
        at=child.wanted.at,
        try_="run its command by hand in the benchmark file's folder"
        if child.wanted.image is None
        else "pull the image by hand; name it with its registry, such as docker.io/…",
    )


def _never_ready(child: ServiceProcess, answer: str) -> MeasureError:
    return MeasureError(
        f"the service {child.wanted.name} was not ready within {child.wanted.within_s:g} s; last answer: {answer}"
        f"{log_excerpt(last_words(child.stdout, child.stderr, child.secrets))}",
        code="service-not-ready",
        at=f"{child.wanted.at}.ready",
        try_="raise ready.within, or check that the path or command says what ready means, and that the service "
        "listens on {host}",
    )


# The first looks are close together, since the time to ready is a result; later ones disturb less.
FIRST_STEP_S, LAST_STEP_S = 0.02, 0.2
_ANSWER_S = 5.0
_COMMAND_S = 30.0


@dataclass(frozen=True, slots=True)
class Question:
    """What a service is asked until it is ready; everything given must hold."""

    port: int
    host: str = HOST
    http: str | None = None
    tcp: bool = False
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    cwd: Path | None = None

    def probe(self, left_s: float) -> str | None:
        """None when ready, else what the service answered."""
        if self.http is not None and (said := probe_http(self.port, self.http, min(left_s, _ANSWER_S), self.host)):
            return said
        if self.tcp or (self.http is None and self.command is None):
            said = probe_tcp(self.port, left_s, self.host)
            if said is not None:
                return said
        if self.command is not None:
            return probe_command(self.command, self.env, self.cwd, min(left_s, _COMMAND_S))
        return None


def steps() -> Iterator[float]:
    """How long to wait before each look, in seconds."""
    step_s = FIRST_STEP_S
    while True:
        yield step_s
        step_s = min(2 * step_s, LAST_STEP_S)


def probe_http(port: int, path: str, wait_s: float, host: str = HOST) -> str | None:
    """None when a path answers with a status below 400."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host, port, timeout=max(wait_s, 0.05))
    try:
        connection.request("GET", path if path.startswith("/") else f"/{path}", headers={"Connection": "close"})
        answer = connection.getresponse()
        begin = answer.read(200)
    except (OSError, HTTPException, ValueError) as failure:
        return f"GET {path}: {_words_of(failure)}"
    finally:
        connection.close()
    if answer.status < 400:
        return None
    text = " ".join(begin.decode("utf-8", "replace").split())
    return f"GET {path}: status {answer.status}{f' ({text})' if text else ''}"


def probe_tcp(port: int, wait_s: float, host: str = HOST) -> str | None:
    """None when a port accepts a connection."""
    try:
        socket.create_connection((host, port), timeout=max(min(wait_s, _ANSWER_S), 0.05)).close()
    except OSError as failure:
        return f"port {port}: {_words_of(failure)}"
    return None


def probe_command(words: tuple[str, ...], env: Mapping[str, str] | None, cwd: Path | None, wait_s: float) -> str | None:
    """None when a command exits with 0. What it prints is left: an endless one must not fill anything."""
    try:
        process = subprocess.Popen(
            words,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as failure:
        return f"{words[0]}: {failure.strerror or failure}"
    try:
        code = process.wait(timeout=max(wait_s, 0.05))
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"{words[0]}: did not end within {wait_s:.1f} s"
    return f"{words[0]}: exit code {code}" if code else None


def _words_of(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror.lower()
    return f"{type(failure).__name__}: {failure}".rstrip(": ")

"""How a command is started, as a plain process or in a container, and what it used."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from assay.emit import PIPE_VARIABLE
from assay.errors import MeasureError
from assay.folders import images_folder
from assay.run.code_archive import unpack
from assay.run.contract import Order, Stage
from assay.run.processes import TAG_VARIABLE
from assay.run.programs import advice_for
from assay.run.services import RunningService, containers, started
from assay.run.targets.telemetry import tree_cpu_s
from assay.spec.benchmark import Definition
from assay.spec.limits import split_words
from assay.spec.paths import words
from assay.spec.references import REFERENCE, resolve_secrets
from assay.spec.target import CODE, CommandTarget

# Their jobs wait this long for the pipe; ours is there before the program starts.
_WAIT_S, _STEP_S = "60", "0.5"
CODE_VARIABLE = "ASSAY_CODE"
_ADDRESS = re.compile(r"\{(host|port):([^{}]+)\}")


def benchmark_ai_variables(pipe: str | None, code: str | None) -> dict[str, str]:
    """What their library and their scripts find in the environment.

    Args:
        pipe: path of the pipe as the program sees it; None where it cannot reach one, so that lines are printed.
        code: folder with the code that travels with the benchmark, as the program sees it.
    """
    variables = {"BENCHMARK_AI": "stdout"}
    if pipe is not None:
        variables = {
            "BENCHMARK_AI": "fifo",
            "BENCHMARK_AI_FIFO_FILEPATH": pipe,
            "BENCHMARK_AI_FIFO_MAX_WAIT_TIME": _WAIT_S,
            "BENCHMARK_AI_FIFO_WAIT_TIME_STEP": _STEP_S,
        }
    return variables if code is None else {**variables, "BAI_SCRIPTS_PATH": code}


def command_words(target: CommandTarget) -> list[str]:
    """The command as a list of words; the shell's own text when it goes through a shell.

    Of an image's own command, which is not known here, its arguments alone.
    """
    command = target.args if target.command is None else target.command
    if target.shell:
        return [command if isinstance(command, str) else shlex.join(command)]
    return list(split_words(command) if isinstance(command, str) else command)


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    services: Mapping[str, RunningService] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    """Those that were started for this run."""
    code: Path | None = None
    """Folder with its code."""

    def cpu_s(self) -> float:
        """Processor time of the services that run on this machine: they belong to what is measured."""
        return sum(tree_cpu_s(service.pid, ended=True) for service in self.services.values())

    def facts(self) -> dict[str, JsonValue]:
        services: dict[str, JsonValue] = {
            name: {"how": service.how, "host": service.host, "shared": name not in self.fresh, **dict(service.facts)}
            for name, service in self.services.items()
        }
        return {"services": services} if services else {}

    def metrics(self) -> dict[str, float]:
        """How long its service took to get ready, where there is one alone and this run started it."""
        if len(self.services) != 1 or not self.fresh.issuperset(self.services):
            return {}
        return {"start_to_ready_s": next(iter(self.services.values())).start_to_ready_s}


@contextmanager
def command_environment(order: Order, stage: Stage) -> Iterator[CommandEnvironment]:
    """Start the services that belong to this run and unpack the code; both are gone afterwards."""
    definition, base, scratch = order.job.definition, Path(order.job.base), Path(order.scratch)
    code = getattr(definition.target, "code", None)
    folder = None
    if code is not None:
        folder = scratch / "code"
        unpack(base / code, folder)
    own = {
        name: service
        for name, service in definition.services.items()
        if service.fresh == "run" and name not in order.services
    }
    with started(own, base, scratch, known=order.services, notify=partial(stage.progress, 0.0)) as fresh:
        yield CommandEnvironment({**order.services, **fresh}, frozenset(fresh), folder)


def needs_environment(definition: Definition) -> bool:
    """Whether anything has to be there before a command starts."""
    target = definition.target
    return bool(definition.services) or (isinstance(target, CommandTarget) and (target.is_boxed or bool(target.code)))


def filled(text: str, services: Mapping[str, RunningService], code: str | None) -> str:
    """A text with the addresses of services and the folder of the code put in; other braces stay as they are."""
    text = text if code is None else text.replace(CODE, code)

    def address(match: re.Match[str]) -> str:
        what, name = match[1], match[2]
        if name not in services:
            message = f"{match[0]} names no service that runs (there are {', '.join(services)})"
            try_ = "name one that is under services"
            raise MeasureError(message, code="service-reference", at="target.command", try_=try_)
        return str(services[name].port) if what == "port" else services[name].host

    return _ADDRESS.sub(address, text) if services else text


def added_variables(
    target: CommandTarget, around: CommandEnvironment, *, run_id: int, pipe: str | None, code: str | None
) -> dict[str, str]:
    """What is added to the environment of a command, secrets put in; what the file says wins over all but our own.

    Args:
        pipe: where it reports numbers, as it sees it; None where it cannot reach a pipe.
    """
    own = {name: filled(resolve_secrets(value), around.services, code) for name, value in target.env.items()}
    ours = {"ASSAY_RUN_ID": str(run_id)}
    ours |= {PIPE_VARIABLE: pipe} if pipe is not None else {}
    ours |= {CODE_VARIABLE: code} if code is not None else {}
    for name, service in around.services.items():
        key = f"ASSAY_SERVICE_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
        ours |= {f"{key}_HOST": service.host, f"{key}_PORT": str(service.port), f"{key}_URL": service.base_url}
    return {**benchmark_ai_variables(pipe, code), **own, **ours}


# Where a container finds what assay gives it.
EMIT_FOLDER, CODE_FOLDER = "/assay/emit", "/assay/code"
EVERY_S = 0.1
_FIND_WITHIN_S, _FIND_EVERY_S = 10.0, 0.2


def make_box(
    order: Order, target: CommandTarget, around: CommandEnvironment, added: Mapping[str, str], emit: Path | None
) -> containers.Container:
    base, at = Path(order.job.base), "target.image"
    runtime = containers.find_runtime(target.container, at)
    secret = {name for name, value in target.env.items() if REFERENCE.search(value)}
    mounts = _mounts(target, base)
    mounts |= {str(emit): EMIT_FOLDER} if emit is not None else {}
    mounts |= {str(around.code): CODE_FOLDER} if around.code is not None else {}
    return containers.Container(
        runtime,
        containers.runtime_for(runtime).image(target.image or "", base, at),
        f"assay-{uuid.uuid4().hex[:12]}",
        os.environ.get(TAG_VARIABLE) or uuid.uuid4().hex,
        command=_command(target, around),
        args=_filled(words(target.args), around),
        env={name: value for name, value in added.items() if name not in secret},
        hidden={name: value for name, value in added.items() if name in secret},
        mounts=mounts,
        workdir=target.cwd,
        gpus=order.job.definition.needs.gpus,
        host_network=sys.platform == "linux",
        shm=_shared_memory(),
    )


def with_image(box: containers.Container, stage: Stage, within_s: float) -> tuple[containers.Container, dict[str, str]]:
    """The box with its image fetched, and what that image is; fetching it is no part of a run."""
    way = containers.runtime_for(box.runtime)
    facts = way.facts(box)
    if "image_id" in facts or "image_digest" in facts:
        return box, facts
    stage.progress(0.0, f"the image {box.image} is being fetched")
    asked = box.image
    box = way.fetched(box, images_folder(), within_s)
    return box, {**way.facts(box), **({"image_asked": asked} if box.image != asked else {})}


def _command(target: CommandTarget, around: CommandEnvironment) -> tuple[str, ...] | None:
    if target.command is None:
        return None
    if target.shell:
        text = target.command if isinstance(target.command, str) else " ".join(target.command)
        return ("/bin/sh", "-c", *_filled((text,), around))
    return _filled(words(target.command), around)


def _filled(given: tuple[str, ...], around: CommandEnvironment) -> tuple[str, ...]:
    code = None if around.code is None else CODE_FOLDER
    return tuple(filled(word, around.services, code) for word in given)


def _mounts(target: CommandTarget, base: Path) -> dict[str, str]:
    mounts = {}
    for here, there in target.mounts.items():
        path = (base / Path(here).expanduser()).absolute()
        if not path.exists():
            message = f"mounts names {str(path)!r}, which is not there"
            try_ = "it is relative to the benchmark file's folder"
            raise MeasureError(message, code="command", at="target.mounts", try_=try_)
        mounts[str(path)] = there
    return mounts


def _shared_memory() -> int | None:
    """The size of this machine's shared memory, so that a container has as much; None where it is not known."""
    try:
        status = os.statvfs("/dev/shm")  # noqa: S108  (the machine's own, not a file that assay made)
    except (OSError, AttributeError):
        return None
    return status.f_blocks * status.f_frsize or None


class Account(threading.Thread):
    """Reads what a container used whose processes are not our children, from its control group, until it ends."""

    def __init__(self, box: containers.Container, client: int) -> None:
        super().__init__(name="account", daemon=True)
        self.cpu_s: float | None = None
        self.peak_rss_mb: float | None = None
        self._box, self._client = box, client
        self._over = threading.Event()
        self.start()

    def finish(self) -> tuple[float | None, float | None]:
        """Stop reading; processor time and peak memory as they were read last, None where they could not be."""
        self._over.set()
        self.join(_FIND_WITHIN_S)
        return self.cpu_s, self.peak_rss_mb

    def run(self) -> None:
        group = self._group()
        while group is not None:
            self._read(group)
            if self._over.wait(EVERY_S):
                return

    def _group(self) -> Path | None:
        way = containers.runtime_for(self._box.runtime)
        for _ in range(round(_FIND_WITHIN_S / _FIND_EVERY_S)):
            pid = way.first_pid(self._box, self._client)
            if pid is not None and (group := control_group(pid)) is not None:
                return group
            if self._over.wait(_FIND_EVERY_S):
                return None
        return None

    def _read(self, group: Path) -> None:
        try:
            counters = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
            self.cpu_s = int(counters["usage_usec"]) / 1e6
            for pid in (group / "cgroup.procs").read_text().split():
                self.peak_rss_mb = max(self.peak_rss_mb or 0.0, high_water_mb(Path(f"/proc/{pid}/status")))
        except (OSError, ValueError, KeyError):
            return  # it is ending


def control_group(pid: int, processes: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The control group of a process, where it has one of its own; None where the system does not say."""
    try:
        own, its = ((processes / name / "cgroup").read_text() for name in ("self", str(pid)))
    except OSError:
        return None
    path = next((line[3:] for line in its.splitlines() if line.startswith("0::")), "")
    if path in ("", "/") or its == own:
        return None
    group = groups / path.lstrip("/")
    return group if (group / "cpu.stat").is_file() else None


def high_water_mb(status: Path) -> float:
    """The kernel's high-water mark of a process, in MB; 0 for one that has ended."""
    try:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    except (OSError, ValueError, IndexError):
        pass
    return 0.0


@dataclass(frozen=True, slots=True)
class Launch:
    """One command, ready to be started."""

    words: list[str]
    cwd: Path
    env: Mapping[str, str]
    asked: tuple[str, ...]
    """The command as it is kept with the result: no address and no folder of this run is in it."""
    shell: bool = False
    box: containers.Container | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        image = "" if self.box is None else f" in {self.box.image}"
        return f"{shlex.join(self.asked) or 'the own command'}{image}"

    @property
    def is_apart(self) -> bool:
        """Whether its processes are not our children."""
        return self.box is not None and containers.runtime_for(self.box.runtime).stays

    def start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.words if not self.shell else " ".join(self.words),
                shell=self.shell,
                cwd=self.cwd,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as problem:
            message = f"cannot start {self.words[0]!r}: {problem.strerror}"
            try_ = advice_for(self.words[0], problem, self.env.get("PATH"))
            raise MeasureError(message, code="command", at=str(self.cwd), try_=try_) from None

    def account(self, pid: int) -> Account | None:
        """What reads how much it uses, where it is not our child."""
        return Account(self.box, pid) if self.box is not None and self.is_apart else None


def launch_of(order: Order, stage: Stage, around: CommandEnvironment, pipe: Path) -> Launch:
    target = cast("CommandTarget", order.job.definition.target)
    return _boxed(order, target, stage, around, pipe) if target.is_boxed else _plain(order, target, around, pipe)


def _plain(order: Order, target: CommandTarget, around: CommandEnvironment, pipe: Path) -> Launch:
    base = Path(order.job.base)
    code = None if around.code is None else str(around.code)
    added = added_variables(target, around, run_id=order.run_id, pipe=str(pipe), code=code)
    asked = command_words(target)
    return Launch(
        [filled(word, around.services, code) for word in asked],
        base / target.cwd if target.cwd else base,
        {**os.environ, **added},
        tuple(asked),
        shell=target.shell,
        facts={"image_not_used": target.image} if target.image is not None else {},
    )


def _boxed(order: Order, target: CommandTarget, stage: Stage, around: CommandEnvironment, pipe: Path) -> Launch:
    # A pipe of this machine does not reach containers that live in a virtual machine.
    emit = pipe.parent if sys.platform == "linux" else None
    inside = None if emit is None else f"{EMIT_FOLDER}/{pipe.name}"
    code = None if around.code is None else CODE_FOLDER
    added = added_variables(target, around, run_id=order.run_id, pipe=inside, code=code)
    box = make_box(order, target, around, added, emit)
    box, image_facts = with_image(box, stage, order.job.definition.measure.timeout)
    containers.mark(box, Path(order.scratch))  # before it can exist, so that a sweep finds it
    way = containers.runtime_for(box.runtime)
    facts: dict[str, JsonValue] = {"container": dict(image_facts)}
    if way.stays:
        facts["cpu_is"] = f"of the container's control group, as last read before its end; read every {EVERY_S:g} s"
        facts["duration_is"] = "from the start of the container to its end"
    return Launch(
        way.words(box),
        Path(order.job.base),
        way.environment(box, os.environ),
        tuple(command_words(target)),
        box=box,
        facts=facts,
    )

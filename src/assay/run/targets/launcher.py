"""How a command is started, as a plain process or in a container, and what it used."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.folders import images_folder
from assay.run.contract import Order, Stage
from assay.run.processes import TAG_VARIABLE
from assay.run.services import containers
from assay.run.targets.environment import CommandEnvironment, added_variables, command_words, filled
from assay.spec.paths import words
from assay.spec.secrets import REFERENCE
from assay.spec.target import CommandTarget

# Where a container finds what assay gives it.
EMIT_FOLDER, CODE_FOLDER = "/assay/emit", "/assay/code"
EVERY_S = 0.1
_FIND_WITHIN_S, _FIND_EVERY_S = 10.0, 0.2


def reaches_pipes() -> bool:
    """Whether a pipe of this machine works in its containers: not where they live in a virtual machine."""
    return sys.platform == "linux"


def make_box(
    order: Order, target: CommandTarget, around: CommandEnvironment, added: Mapping[str, str], emit: Path | None
) -> containers.Container:
    """The container of a command.

    Raises:
        MeasureError: if no program runs containers here, or a mount is not there.
    """
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
    """The box with its image at hand, and what that image is; fetching it is no part of a run."""
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
    found = {}
    for here, there in target.mounts.items():
        path = (base / Path(here).expanduser()).absolute()
        if not path.exists():
            raise MeasureError(
                f"mounts names {str(path)!r}, which is not there",
                code="command",
                at="target.mounts",
                try_="it is relative to the benchmark file's folder",
            )
        found[str(path)] = there
    return found


def _shared_memory() -> int | None:
    """The size of this machine's shared memory, so that a container has as much; None where it is not known."""
    try:
        status = os.statvfs("/dev/shm")  # noqa: S108  (the machine's own, not a file of ours)
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
        """Look again and again."""
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
            told = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
            self.cpu_s = int(told["usage_usec"]) / 1e6
            for pid in (group / "cgroup.procs").read_text().split():
                self.peak_rss_mb = max(self.peak_rss_mb or 0.0, high_water_mb(Path(f"/proc/{pid}/status")))
        except (OSError, ValueError, KeyError):
            return  # it is ending


def control_group(pid: int, processes: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The control group of a process, where it has one of its own; None where the system does not tell."""
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


def is_apart(box: containers.Container) -> bool:
    """Whether a container's processes are not our children, so that the kernel's account of ours misses them."""
    return containers.runtime_for(box.runtime).stays


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
        """The command in a message."""
        image = "" if self.box is None else f" in {self.box.image}"
        return f"{shlex.join(self.asked) or 'the own command'}{image}"

    @property
    def is_apart(self) -> bool:
        """Whether its processes are not our children."""
        return self.box is not None and is_apart(self.box)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it.

        Raises:
            MeasureError: if its program is not there.
        """
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
            raise MeasureError(
                f"cannot start {self.words[0]!r}: {problem.strerror}",
                code="command",
                at=str(self.cwd),
                try_="check the command and cwd; relative paths start at the benchmark file's folder",
            ) from None

    def account(self, pid: int) -> Account | None:
        """What reads how much it uses, where it is not our child."""
        return Account(self.box, pid) if self.box is not None and self.is_apart else None


def launch_of(order: Order, stage: Stage, around: CommandEnvironment, pipe: Path) -> Launch:
    """How the command of an order is started.

    Raises:
        MeasureError: if a secret is not set, a service not known, or a container cannot be had.
    """
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
    emit = pipe.parent if reaches_pipes() else None
    inside = None if emit is None else f"{EMIT_FOLDER}/{pipe.name}"
    code = None if around.code is None else CODE_FOLDER
    added = added_variables(target, around, run_id=order.run_id, pipe=inside, code=code)
    box = make_box(order, target, around, added, emit)
    box, told = with_image(box, stage, order.job.definition.measure.timeout)
    containers.mark(box, Path(order.scratch))  # before it can exist, so that a sweep finds it
    way = containers.runtime_for(box.runtime)
    facts: dict[str, JsonValue] = {"container": dict(told)}
    if is_apart(box):
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

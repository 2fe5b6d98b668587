"""How a command is started: as a plain process or in a container, with everything that it is told."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.contract import Order, Stage
from assay.run.services import containers
from assay.run.targets.boxed import (
    CODE_FOLDER,
    EMIT_FOLDER,
    EVERY_S,
    Account,
    is_apart,
    make_box,
    reaches_pipes,
    with_image,
)
from assay.run.targets.surroundings import Around, added_variables, filled
from assay.run.targets.words import words_of
from assay.spec.target import CommandTarget


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


def launch_of(order: Order, stage: Stage, around: Around, pipe: Path) -> Launch:
    """How the command of an order is started.

    Raises:
        MeasureError: if a secret is not set, a service not known, or a container cannot be had.
    """
    target = cast("CommandTarget", order.job.definition.target)
    return _boxed(order, target, stage, around, pipe) if target.is_boxed else _plain(order, target, around, pipe)


def _plain(order: Order, target: CommandTarget, around: Around, pipe: Path) -> Launch:
    base = Path(order.job.base)
    code = None if around.code is None else str(around.code)
    added = added_variables(target, around, run_id=order.run_id, pipe=str(pipe), code=code)
    asked = words_of(target)
    return Launch(
        [filled(word, around.services, code) for word in asked],
        base / target.cwd if target.cwd else base,
        {**os.environ, **added},
        tuple(asked),
        shell=target.shell,
        facts={"image_not_used": target.image} if target.image is not None else {},
    )


def _boxed(order: Order, target: CommandTarget, stage: Stage, around: Around, pipe: Path) -> Launch:
    emit = pipe.parent if reaches_pipes() else None
    inside = None if emit is None else f"{EMIT_FOLDER}/{pipe.name}"
    code = None if around.code is None else CODE_FOLDER
    added = added_variables(target, around, run_id=order.run_id, pipe=inside, code=code)
    box = make_box(order, target, around, added, emit)
    box, told = with_image(box, stage, order.job.definition.measure.timeout)
    containers.mark(box, Path(order.scratch))  # before it can exist, so that whoever sweeps finds it
    way = containers.runtime_for(box.runtime)
    facts: dict[str, JsonValue] = {"container": dict(told)}
    if is_apart(box):
        facts["cpu_is"] = f"of the container's control group, as last read before its end; read every {EVERY_S:g} s"
        facts["duration_is"] = "from the start of the container to its end"
    return Launch(
        way.words(box),
        Path(order.job.base),
        way.environment(box, os.environ),
        tuple(words_of(target)),
        box=box,
        facts=facts,
    )

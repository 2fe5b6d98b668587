"""A container beside ours in the same pod: Kubernetes started it, and it waits for what it is to run.

Nothing in a pod can start containers. So the image of a measured program is a second container, whose only process is
the few lines of shell below: it waits for a folder by name, runs what lies there, and says how it ended. Both
containers see one folder under the same path. The one who measures holds the other end of a pipe: when it is gone, so
is the second container.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import MeasureError
from assay.run.services.containers.contract import Container, Kind
from assay.run.services.containers.image_cache import Image, is_file

KIND: Kind = "kubernetes"
# Set for whoever starts a program: where both containers meet, and what it is to start.
FOLDER, ORDER = "ASSAY_BESIDE", "ASSAY_BESIDE_ORDER"
GO, OUT, STOP, CODE, SCRIPT, OVER = "go", "out", "stop", "code", "run.sh", "over"
# Where both containers meet, below the folder in which a pod works.
PROGRAM = "program"
_MODULE = "assay.run.services.containers.relay"

WAITING = """\
#!/bin/sh
# Waits in the image of a measured program for its runs; ends when the container beside it does.
work="$ASSAY_POD_WORK/program"
until [ -p "$work/go" ] || [ -e "$work/over" ]; do sleep 0.1 2>/dev/null || sleep 1; done
[ -p "$work/go" ] || exit 0
exec 3<"$work/go"
while read -r run <&3; do
  /bin/sh "$work/$run/run.sh" >"$work/$run/out" 2>&1 3<&- &
  child=$!
  (read -r _ <"$work/$run/stop" && kill -9 "$child") 3<&- >/dev/null 2>&1 &
  watcher=$!
  wait "$child"
  code=$?
  kill "$watcher" 2>/dev/null
  echo "$code" >"$work/$run/code.part" && mv "$work/$run/code.part" "$work/$run/code"
done
"""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The second container of a pod, used like a runtime that runs one image."""

    kind: Kind = KIND
    programs: tuple[str, ...] = ()
    stays: bool = True

    def image(self, image: str, base: Path, at: str) -> str:  # noqa: ARG002  (a pod has no files of the user)
        """The name of an image in a registry."""
        if is_file(image):
            raise MeasureError(
                f"Kubernetes cannot run the image file {image!r}",
                code="container-runtime",
                at=at,
                try_="name an image of a registry",
            )
        return image.removeprefix("docker://")

    def words(self, box: Container) -> list[str]:
        """What hands a program over and writes what it writes."""
        if box.command is None:
            raise MeasureError(
                "the target names no command, and nobody in a pod knows the image's own",
                code="container-runtime",
                at="target.command",
                try_="write the command of the image into target.command",
            )
        return [box.runtime.program, "-m", _MODULE, box.name]

    def environment(self, box: Container, inherited: Mapping[str, str]) -> dict[str, str]:
        """Our own, and everything that the program gets: secrets must not stand on a command line."""
        order = {
            "command": list(box.command or ()),
            "env": {**(box.env or {}), **(box.hidden or {})},
            # A mount cannot be read-only here: both see one volume.
            "mounts": {here: there.removesuffix(":ro") for here, there in (box.mounts or {}).items()},
            "workdir": box.workdir,
        }
        return {**inherited, ORDER: json.dumps(order)}

    def facts(self, box: Container) -> dict[str, str]:
        """The image as it was asked for; what its node really ran, Kubernetes tells from outside."""
        return {"image": box.image, "runtime": self.kind}

    def fetched(self, box: Container, folder: Path, within_s: float) -> Container:  # noqa: ARG002  (its node has fetched it)
        return box

    def first_pid(self, box: Container, started: int) -> int | None:  # noqa: ARG002
        """Its process is none that we can tell from others."""
        return None

    def reference(self, image: str) -> str:
        return image

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> Image:  # noqa: ARG002
        """Refuse: nodes of Kubernetes fetch and keep images themselves."""
        raise MeasureError(f"the image {image} is kept by the nodes of the cluster", code="container-runtime")

    def remove(self, box: Container) -> None:
        """End a program by its name, whatever became of the one that handed it over."""
        if folder := os.environ.get(FOLDER):
            stop(Path(folder) / box.name)


SIDECAR = Sidecar()


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Let the container beside wait for programs for as long as the body runs."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    go = folder / GO
    go.unlink(missing_ok=True)
    make_pipe(go)
    # Both ways, so that opening does not wait; whoever reads sees the end when this is closed.
    line = os.open(go, os.O_RDWR | os.O_NONBLOCK)
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder)
    try:
        yield
    finally:
        (folder / OVER).touch()
        os.close(line)
        go.unlink(missing_ok=True)
        if before is None:
            os.environ.pop(FOLDER, None)
        else:
            os.environ[FOLDER] = before


def make_pipe(path: Path) -> None:
    """Make a pipe that the user of any container may use."""
    os.mkfifo(path)
    path.chmod(0o666)


def stop(run: Path) -> None:
    """End the program of a run by force; nothing where none runs."""
    with suppress(OSError):
        pipe = os.open(run / STOP, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, b"stop\n")
        finally:
            os.close(pipe)


def read_order(text: str) -> dict[str, Any]:
    """What a program gets, as `environment` wrote it."""
    found = json.loads(text)
    return dict(found)

"""A container beside ours in the same pod: Kubernetes started it, and it waits for what it is to run.

Nothing in a pod can start containers. So the image of a measured program is a second container, whose only process is
the few lines of shell below: it waits for a folder by name, runs what lies there, and says how it ended. Both
containers see one folder under the same path. The one who measures holds the other end of a pipe: when it is gone, so
is the second container.

`python -m assay.run.services.containers.sidecar NAME` hands a program over: it writes what the program writes, as it
comes, and ends as the program ended. It is started by the process that measures, never by a user.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from assay.errors import MeasureError
from assay.run.services.containers.contract import SIDECAR_KIND, Container, ContainerRuntime, registry_name
from assay.run.services.containers.image_cache import Image

# Set for the process that starts a program: where both containers meet, and what it is to start.
FOLDER, ORDER = "ASSAY_BESIDE", "ASSAY_BESIDE_ORDER"
GO, OUT, STOP, CODE, SCRIPT, OVER = "go", "out", "stop", "code", "run.sh", "over"
# Where both containers meet, below the folder in which a pod works.
PROGRAM = "program"
_MODULE = "assay.run.services.containers.sidecar"
_BLOCK = 1 << 16
_POLL_S = 0.002
_SIGNALS = 128

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


class Sidecar(ContainerRuntime):
    """The second container of a pod, used like a runtime that runs one image."""

    kind, stays = SIDECAR_KIND, True

    def image(self, image: str, base: Path, at: str) -> str:  # noqa: ARG002  (a pod has no files of the user)
        return registry_name(image, "Kubernetes", at, "name an image of a registry")

    def words(self, box: Container) -> list[str]:
        """What hands a program over and writes what it writes."""
        if box.command is None:
            raise MeasureError(
                "the target names no command, and in a pod the image's own is not known",
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

    def keep(self, program: str, image: str, folder: Path, within_s: float) -> Image:  # noqa: ARG002
        """Refuse: nodes of Kubernetes fetch and keep images themselves."""
        raise MeasureError(f"the image {image} is kept by the nodes of the cluster", code="container-runtime")

    def remove(self, box: Container) -> None:
        """End a program by its name, whether or not the process that handed it over still runs."""
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
    # Both ways, so that opening does not wait; the reader sees the end when this is closed.
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


def main(arguments: Sequence[str]) -> int:
    """Run one program."""
    folder = Path(os.environ[FOLDER])
    run = folder / arguments[0]
    order = json.loads(os.environ[ORDER])
    run.mkdir()
    run.chmod(0o777)
    for name in (OUT, STOP):
        make_pipe(run / name)
    (run / SCRIPT).write_text(script_of(order["command"], order["env"], order["mounts"], order["workdir"]))
    _let_in(order["mounts"])
    signal.signal(signal.SIGTERM, lambda number, frame: _stopped(run, number, frame))
    output = os.open(run / OUT, os.O_RDONLY | os.O_NONBLOCK)
    _say(folder / GO, run.name)
    return _ended(_follow(output, run / CODE))


def script_of(command: Sequence[str], env: Mapping[str, str], mounts: Mapping[str, str], workdir: str | None) -> str:
    """The lines that start a program in its own image.

    Args:
        mounts: folder here → folder that it expects; both containers see the first under the same path.
    """
    words, values = [*command], dict(env)
    lines = ["#!/bin/sh"]
    for here, there in mounts.items():
        # Paths that we chose are written as they are; one that the file chose may be part of the program itself.
        words = [_moved(word, there, here) for word in words]
        values = {name: _moved(text, there, here) for name, text in values.items()}
        lines.append(
            f"[ -e {shlex.quote(there)} ] || {{ mkdir -p {shlex.quote(str(Path(there).parent))} && "
            f"ln -s {shlex.quote(here)} {shlex.quote(there)}; }} 2>/dev/null"
        )
    lines += [f"export {name}={shlex.quote(text)}" for name, text in values.items()]
    lines += [f"cd {shlex.quote(workdir)} || exit 126"] if workdir else []
    return "\n".join((*lines, f"exec {shlex.join(words)}", ""))


def _moved(text: str, there: str, here: str) -> str:
    """A text with one folder in place of another, where it begins with it or has it behind a sign."""
    if text == there or text.startswith(f"{there}/"):
        return here + text[len(there) :]
    for sign in ("=", ":", ",", " "):
        text = text.replace(f"{sign}{there}/", f"{sign}{here}/")
    return text


def _let_in(mounts: Mapping[str, str]) -> None:
    """Let the user of the other container into what it is given; only containers of this pod see it."""
    for here in mounts:
        path = Path(here)
        with suppress(OSError):
            path.chmod(0o777 if path.is_dir() else 0o666)
            for inside in path.iterdir() if path.is_dir() else ():
                if inside.is_fifo():
                    inside.chmod(0o666)
            # The folder of a run is private where it is made.
            for above in path.parents[:2]:
                above.chmod(above.stat().st_mode | 0o055)


def _follow(output: int, code: Path) -> int:
    """Write on what the program writes until it has ended; its exit code, as a shell tells it."""
    sink = sys.stdout.buffer
    looked = False
    while True:
        ended = code.exists()
        block = _read(output)
        if block:
            sink.write(block)
            sink.flush()
        elif ended and looked:  # once more after it ended: its last words may have come in between
            return int(code.read_text().strip() or 1)
        elif ended:
            looked = True
        else:
            select.select([output] if block is None else [], [], [], _POLL_S)


def _read(output: int) -> bytes | None:
    """What has come; nothing where no writer has the pipe open, None where one has and is silent."""
    try:
        return os.read(output, _BLOCK)
    except BlockingIOError:
        return None


def _say(pipe: Path, line: str) -> None:
    with pipe.open("wb", buffering=0) as sink:
        sink.write(f"{line}\n".encode())


def _ended(code: int) -> int:
    """End as the program did, also by its signal."""
    if code > _SIGNALS:
        number = code - _SIGNALS
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    return code


def _stopped(run: Path, number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal's signature)
    stop(run)
    os._exit(_SIGNALS + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

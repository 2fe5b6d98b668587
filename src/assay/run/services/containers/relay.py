"""`python -m assay.run.services.containers.relay NAME`: gives a program to the container beside us, and stands for it.

It writes what the program writes, as it comes, and ends as the program ended. Started by whoever measures, never by a
user.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from assay.run.services.containers.sidecar import (
    CODE,
    FOLDER,
    GO,
    ORDER,
    OUT,
    SCRIPT,
    STOP,
    make_pipe,
    read_order,
    stop,
)

_BLOCK = 1 << 16
_LOOK_S = 0.002
_SIGNALS = 128


def main(arguments: Sequence[str]) -> int:
    """Run one program."""
    folder = Path(os.environ[FOLDER])
    run = folder / arguments[0]
    order = read_order(os.environ[ORDER])
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
            select.select([output] if block is None else [], [], [], _LOOK_S)


def _read(output: int) -> bytes | None:
    """What has come; nothing where nobody has the pipe open for writing, None where somebody has and is silent."""
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

"""Asking a layer: programs that answer in text, and the reason where one does not."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from assay.hardware.gpu.record import Gpu

Run = Callable[[Sequence[str]], str]
"""Runs a command and returns what it writes; raises `Unanswered`."""
# Where makers put their programs without adding the folder to the path: ROCm, Windows' Linux, some containers.
_ELSEWHERE = "/opt/rocm/bin:/usr/lib/wsl/lib:/usr/local/nvidia/bin"
_WITHIN_S = 30.0


class Unanswered(Exception):  # noqa: N818  (no error: most machines lack most layers)
    """A layer cannot be asked here; its text is the reason."""


class Answer(NamedTuple):
    """The GPUs that a layer sees."""

    gpus: tuple[Gpu, ...]
    remark: str = ""
    """What it could not tell, and why."""


def output(command: Sequence[str]) -> str:
    """What a program writes.

    Raises:
        Unanswered: it is not here, does not end, or says that it failed.
    """
    name = command[0]
    program = shutil.which(name) or shutil.which(name, path=_ELSEWHERE)
    if program is None:
        raise Unanswered(f"{name} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as failure:
        raise Unanswered(f"{name} does not answer: {failure}") from failure
    if done.returncode:
        said = (done.stdout.strip() or done.stderr.strip() or "no word").splitlines()[0]
        raise Unanswered(f"{name} ended with code {done.returncode}: {said[:200]}")
    return done.stdout


def parsed(name: str, text: str) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    """The JSON in a program's answer; warnings may stand before it."""
    begins = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    try:
        return json.JSONDecoder().raw_decode(text, min(begins))[0]
    except ValueError as failure:  # also of min() where there is no JSON at all
        raise Unanswered(f"{name} does not answer in JSON: {text.strip()[:80]!r}") from failure

"""Calls external programs (helm, kubectl, terraform, podman): found, run, and quoted when they fail."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import assay
from assay.errors import MeasureError, UsageError

_LINES = 12


def deploy_folder() -> Path:
    """The folder of images, charts and plans: beside the package's own code, or in the tree that it comes from."""
    own = Path(assay.__file__).resolve().parent
    for folder in (own / "deploy", own.parents[1] / "deploy"):
        if (folder / "docker-compose.yml").is_file():
            return folder
    raise UsageError(
        "the files of deploy/ are not part of this installation",
        code="no-deploy",
        at=str(own),
        try_="install assay from a wheel or a checkout that holds them",
    )


def find(name: str, needed_for: str, try_: str) -> str:
    """A program that is not part of assay."""
    program = shutil.which(name)
    if program is None:
        raise UsageError(f"{needed_for} needs the program {name!r}, which is not here", code=f"no-{name}", try_=try_)
    return program


def call(
    words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, code: str = "outside"
) -> str:
    """Call a program and return what it said."""
    done = _run(words, cwd, env)
    if done.returncode:
        raise _failed(words, f"ended with code {done.returncode}", done.stderr or done.stdout, code)
    return done.stdout


def succeeds(words: Sequence[str]) -> bool:
    try:
        return _run(words).returncode == 0
    except MeasureError:
        return False


def show(words: Sequence[str], *, cwd: Path | None = None, code: str = "outside") -> None:
    """Call a program whose words a person is to read as they come."""
    done = _run(words, cwd, captured=False, code=code)
    if done.returncode:
        raise _failed(words, f"ended with code {done.returncode}", "see above", code)


def _run(
    words: Sequence[str],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    captured: bool = True,
    code: str = "outside",
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            list(words),
            capture_output=captured,
            text=True,
            errors="replace",
            cwd=cwd,
            env={**os.environ, **(env or {})},
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as problem:
        raise _failed(words, "cannot be started", str(problem.strerror), code) from None


def _failed(words: Sequence[str], how: str, said: str, code: str) -> MeasureError:
    lines = "\n  ".join(said.strip().splitlines()[-_LINES:]) or "it said nothing"
    return MeasureError(
        f"{Path(words[0]).name} {how}:\n  {lines}", code=code, try_=f"run it by hand: {shlex.join(map(str, words))}"
    )

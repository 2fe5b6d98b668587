"""The programs of PostgreSQL, Redis and Prometheus: where they are on this machine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from assay.errors import UsageError

VARIABLES = {"postgresql": "ASSAY_POSTGRESQL", "redis": "ASSAY_REDIS", "prometheus": "ASSAY_PROMETHEUS"}
"""Name a program where it is in no usual place."""
_NAMES = {"postgresql": ("postgres",), "redis": ("redis-server", "valkey-server"), "prometheus": ("prometheus",)}
# Where packages put PostgreSQL, which has a folder for each version: Debian, Red Hat, Homebrew.
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin",
            "usr/local/opt/postgresql@*/bin")  # fmt: skip
_ON_PATH = ("usr/bin", "usr/sbin", "bin")


def find_programs(
    parts: Iterable[str], unpacked: Path, environ: Mapping[str, str] | None = None, root: Path = Path("/")
) -> dict[str, str]:
    """The program of each part that is here; parts without one are left out.

    Raises:
        UsageError: if a variable names a program that is not there.
    """
    env = os.environ if environ is None else environ
    found = {}
    for part in parts:
        program = _given(part, env) or next(_candidates(part, env, (root, unpacked)), None)
        if program is not None:
            found[part] = str(program)
    return found


def library_path(program: str, unpacked: Path) -> dict[str, str]:
    """The variable by which an unpacked program finds its libraries; nothing for one of the system."""
    if not Path(program).is_relative_to(unpacked):
        return {}
    folders = [*unpacked.glob("usr/lib/*-linux-*"), *unpacked.glob("lib/*-linux-*"), unpacked / "usr/lib"]
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}


def initdb_of(postgres: str) -> str:
    """The program that makes a new folder of data, which lies beside the server's."""
    return str(Path(postgres).with_name("initdb"))


def _given(part: str, env: Mapping[str, str]) -> Path | None:
    named = env.get(VARIABLES[part])
    if not named:
        return None
    program = _on_path(part, named, env)
    if program is None or not _is_whole(part, program):
        raise UsageError(
            f"{VARIABLES[part]} is {named!r}, which is no program of {part}",
            code="no-program",
            try_=f"name the program itself, such as /usr/bin/{_NAMES[part][0]}",
        )
    return program


def _on_path(part: str, name: str, env: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=env.get("PATH"))
    if found is None:
        return None
    # Behind a link of PostgreSQL lies the folder with all of its programs. Redis is one file with several names, and
    # does what it is called by: behind its link lies the name of another program.
    return Path(found).resolve() if part == "postgresql" else Path(found).absolute()


def _candidates(part: str, env: Mapping[str, str], roots: Iterable[Path]) -> Iterator[Path]:
    for name in _NAMES[part]:
        on_path = _on_path(part, name, env)
        if on_path and _is_whole(part, on_path):
            yield on_path
    for root in roots:
        for folder in _folders(part, root):
            for name in _NAMES[part]:
                program = folder / name
                if os.access(program, os.X_OK) and program.is_file() and _is_whole(part, program):
                    yield program


def _folders(part: str, root: Path) -> list[Path]:
    usual = [root / place for place in _ON_PATH]
    if part != "postgresql":
        return usual
    versions = [folder for pattern in _FOLDERS for folder in root.glob(pattern)]
    return [*sorted(versions, key=_version, reverse=True), *usual]


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.parent.name)))


def _is_whole(part: str, program: Path) -> bool:
    """Whether everything that a part needs lies beside its program."""
    return part != "postgresql" or os.access(initdb_of(str(program)), os.X_OK)

"""The programs of PostgreSQL, Redis and Prometheus: where they are on this machine, or unpacked from its packages."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from assay.errors import MeasureError, UsageError
from assay.infra.commands import call
from assay.infra.record import is_root

VARIABLES = {"postgresql": "ASSAY_POSTGRESQL", "redis": "ASSAY_REDIS", "prometheus": "ASSAY_PROMETHEUS"}
"""Name a program where it is in no usual place."""
_NAMES = {"postgresql": ("postgres",), "redis": ("redis-server", "valkey-server"), "prometheus": ("prometheus",)}
# Where packages put PostgreSQL, which has a folder for each version: Debian, Red Hat, Homebrew.
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin",
            "usr/local/opt/postgresql@*/bin")  # fmt: skip
_ON_PATH = ("usr/bin", "usr/sbin", "bin")
# With `--reinstall` these come even where they are installed in part: a link of one leads to a file of the other.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "postgresql": ("postgresql",),
    "redis": ("redis-server", "redis-tools"),
    "prometheus": ("prometheus",),
}
_HOMEBREW = {"postgresql": "postgresql@17", "redis": "redis", "prometheus": "prometheus"}


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


def can_fetch() -> bool:
    """Whether this system has packages that can be unpacked."""
    return all(shutil.which(name) for name in ("apt-get", "dpkg-deb"))


def fetch(parts: Sequence[str], unpacked: Path, tell: Callable[[str], None]) -> None:
    """Unpack what some parts need.

    Raises:
        MeasureError: if the packages cannot be had.
    """
    scratch = unpacked.with_name("apt")
    for folder in (scratch / "lists/partial", scratch / "cache/archives/partial", unpacked):
        folder.mkdir(parents=True, exist_ok=True)
    wanted = [package for part in parts for package in PACKAGES[part]]
    tell(f"fetching {', '.join(parts)} from the packages of this system into {unpacked}; nothing is installed")
    apt = _apt(scratch)
    try:
        call([*apt, "update"], code="fetch")
        call(
            [*apt, "install", "--yes", "--no-install-recommends", "--reinstall", "--download-only", *wanted],
            env={"DEBIAN_FRONTEND": "noninteractive"},
            code="fetch",
        )
        found = sorted((scratch / "cache/archives").glob("*.deb"))
        if not found:
            raise MeasureError(f"no package came for {', '.join(parts)}", code="fetch", try_=how_to_install(parts))
        for package in found:
            call(["dpkg-deb", "--extract", str(package), str(unpacked)], code="fetch")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def missing(parts: Sequence[str], *, refused: bool) -> UsageError:
    """What to say of programs that are neither here nor fetched."""
    words = [how_to_install(parts)]
    if refused and can_fetch():
        words.insert(0, "leave --no-fetch out")
    words.append(f"go on without: {' '.join(f'--without {part}' for part in parts)}")
    return UsageError(
        f"there is no program of {', '.join(parts)} on this machine", code="missing-programs", try_="; or ".join(words)
    )


def how_to_install(parts: Sequence[str], platform: str = sys.platform) -> str:
    """The command that installs what some parts need on this system."""
    if platform == "darwin":
        return f"brew install {' '.join(_HOMEBREW[part] for part in parts)}"
    names = [PACKAGES[part][0] for part in parts]
    return f"apt-get install {' '.join(names)} (other systems name their packages alike)"


def _apt(scratch: Path) -> list[str]:
    """The package tool with lists and a cache of its own, which needs no lock of the system."""
    settings = {
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Debug::NoLocking": "true",
        "APT::Get::AllowUnauthenticated": "false",
        # The account that it otherwise uses for fetching may not write into our folder.
        **({"APT::Sandbox::User": "root"} if is_root() else {}),
    }
    return ["apt-get", "--quiet=2", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]

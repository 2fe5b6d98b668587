"""What was brought up and where: one folder for each system, with its secrets, by which it is taken down again."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from assay.documents import from_json, to_json
from assay.errors import MeasureError, UsageError
from assay.files import write_whole

VARIABLE = "ASSAY_INFRA"
DEFAULT = "default"
Provider = Literal["local", "kubernetes", "aws"]
Word = Literal["healthy", "unhealthy", "absent"]
Notify = Callable[[str], None]
"""Tells a person what is done."""
T = TypeVar("T")

# It becomes a part of paths, of DNS names and of the names of containers.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
FOLDER = "secrets"
ROLES = ("admin", "agent", "reader")
TOKEN_VARIABLE = "ASSAY_INFRA_TOKEN_"  # noqa: S105  (the beginning of a name)
"""Begins the variables by which a database gets the tokens of each role."""


@dataclass(frozen=True, slots=True)
class InfraOptions:
    """Everything that can be asked for when a system is brought up; None and empty for what was not said."""

    name: str = DEFAULT
    with_: str | None = None
    """What local parts run in: `processes`, `podman` or `docker`."""
    host: str | None = None
    port: int | None = None
    """Of the server; a free one, 8080 if it is, when left out."""
    without: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    fetch: bool = True
    """Whether programs that are not here may be fetched."""
    namespace: str | None = None
    context: str | None = None
    values: tuple[Path, ...] = ()
    """Files of values of the chart, or of variables as Terraform reads them."""
    settings: tuple[str, ...] = ()
    """Single values or variables, as `name=value`."""
    within_s: float = 600.0
    yes: bool = False
    """Whether a plan is carried out after it was shown."""


@dataclass(frozen=True, slots=True)
class PartState:
    """One part of a system, as it is now."""

    name: str
    state: str
    """`healthy`, `starting`, `unhealthy`, `restarting`, `failed` or `stopped`; else the provider's own word."""
    address: str = ""
    pid: int | None = None
    restarts: int | None = None
    """None where they are not counted."""
    detail: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """A system, as it is now."""

    provider: Provider
    name: str
    word: Word
    parts: tuple[PartState, ...] = ()
    folder: str = ""
    """Where everything about it lies on this machine."""
    then: Mapping[str, str] = field(default_factory=dict)
    """What to type next, by what it does."""

    @classmethod
    def of(
        cls, provider: Provider, name: str, parts: tuple[PartState, ...], folder: Path, then: Mapping[str, str]
    ) -> Status:
        """A system by its parts: healthy when it has some, and all of them are."""
        good = bool(parts) and all(part.state == "healthy" for part in parts)
        return cls(provider, name, "healthy" if good else "unhealthy", parts, str(folder), then)


def base_folder() -> Path:
    """The folder of all systems that this user brought up: from ASSAY_INFRA, else the system's place for it."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser().absolute()
    if is_root():
        # No other user may look into root's own folders, and PostgreSQL refuses to run as root.
        return Path("/var/lib/assay/infra")
    import platformdirs

    return Path(platformdirs.user_state_dir("assay", appauthor=False)) / "infra"


def folder_of(provider: Provider, name: str) -> Path:
    """The folder of one system; it need not be there."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name for a system",
            code="name",
            at="--name",
            try_="use up to 20 small letters, digits and -, beginning with a letter",
        )
    return base_folder() / provider / name


def is_there(name: str, how: str) -> bool:
    """Whether a local system of this name was set up as `processes` or with `compose`, whether or not it runs."""
    return (folder_of("local", name) / f"{how}.json").is_file()


def find_system(provider: Provider, name: str, file: str, record: type[T]) -> tuple[Path, T | None]:
    """The folder of a system and what was written down about it; None where there is none."""
    folder = folder_of(provider, name)
    return folder, kept(folder, file, record)


def url_of(host: str, port: int) -> str:
    everywhere = host in ("0.0.0.0", "::")  # noqa: S104  (compared, not bound)
    return f"http://{'127.0.0.1' if everywhere else f'[{host}]' if ':' in host else host}:{port}"


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def make_folder(folder: Path, mode: int = 0o700) -> tuple[str, ...]:
    """Make a folder and those above it; return the ones above that were not there, the lowest first."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        for parent in reversed(missing):
            parent.mkdir()
            parent.chmod(0o755)  # whatever the umask: other accounts must be able to pass
        if not folder.exists():
            folder.mkdir(mode=0o700)
            folder.chmod(mode)
    except OSError as problem:
        raise UsageError(
            f"the folder cannot be made: {problem.strerror}",
            code="folder",
            at=str(folder),
            try_=f"name another place by {VARIABLE}",
        ) from None
    return tuple(map(str, missing))


def remove_folder(folder: Path, made: Iterable[str] = ()) -> None:
    """Remove a folder, and of those above it the ones that were made for it and are empty now."""
    left: list[str] = []
    shutil.rmtree(folder, onerror=lambda _, path, __: left.append(str(path)))
    if folder.exists():
        raise MeasureError(
            f"{len(left)} files could not be removed, such as {left[0] if left else folder}",
            code="not-removed",
            at=str(folder),
            try_="remove the folder as the user who made it",
        )
    for parent in made:
        try:
            Path(parent).rmdir()
        except OSError:  # another process uses it, or it is gone
            return


def keep(folder: Path, name: str, record: object) -> None:
    write_whole(folder / name, to_json(record, indent=2).encode())


def kept(folder: Path, name: str, record: type[T]) -> T | None:
    """A record of a system; None where there is none."""
    path = folder / name
    try:
        return from_json(record, path.read_bytes(), source=str(path))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise UsageError(
            f"cannot read what was brought up: {problem.strerror}",
            code="no-file",
            at=str(path),
            try_="use the account that brought it up",
        ) from None


@dataclass(frozen=True, slots=True)
class Keys:
    """All secrets of a system."""

    admin: str = field(repr=False)
    agent: str = field(repr=False)
    reader: str = field(repr=False)
    database: str = field(repr=False)
    redis: str = field(repr=False)

    @property
    def tokens(self) -> Mapping[str, str]:
        """The variables that tell a database which tokens to accept."""
        return {f"{TOKEN_VARIABLE}{role.upper()}": str(getattr(self, role)) for role in ROLES}


def token_file(folder: Path, role: str) -> Path:
    return folder / FOLDER / f"{role}.token"


def how_to_use(url: str, folder: Path) -> dict[str, str]:
    """What to do next with a server whose secrets lie in a folder."""
    token = token_file(folder, "admin")
    return {
        "measure": f"assay run bench.yaml --server {url} --token-file {token}",
        "for all commands": f"export ASSAY_SERVER={url} ASSAY_TOKEN_FILE={token}",
        "dashboard": f"{url}/ (sign in with what is in {token})",
        "api": f"{url}/api/v1/docs",
    }


def make_keys(folder: Path) -> Keys:
    """The secrets of a system; those that are not there yet are made."""
    from assay.store.tokens import PREFIX

    place = folder / FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    tokens = {role: _key(token_file(folder, role), PREFIX) for role in ROLES}
    return Keys(**tokens, database=_key(place / "database.password"), redis=_key(place / "redis.password"))


def _key(path: Path, prefix: str = "") -> str:
    if not path.is_file():
        # Letters, digits, - and _ only: it can stand in a URL and in a configuration file as it is.
        write_whole(path, f"{prefix}{secrets.token_urlsafe(32)}\n".encode())
    return path.read_text(encoding="utf-8").strip()

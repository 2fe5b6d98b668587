"""The secrets of a system: made once, each in a file that its owner alone can read."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.files import write_whole

FOLDER = "secrets"
ROLES = ("admin", "agent", "reader")
TOKEN_VARIABLE = "ASSAY_INFRA_TOKEN_"  # noqa: S105  (the beginning of a name)
"""Begins the variables by which a database is told the tokens of each role."""


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
        known = {"admin": self.admin, "agent": self.agent, "reader": self.reader}
        return {f"{TOKEN_VARIABLE}{role.upper()}": known[role] for role in ROLES}


def token_file(folder: Path, role: str) -> Path:
    """Where the token of a role lies in the folder of a system."""
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

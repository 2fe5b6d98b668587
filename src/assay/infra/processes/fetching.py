"""Programs that are not here, out of the packages of this system: unpacked into a folder, and installed nowhere.

Nothing of the machine changes: no service is set up, no account made, and no right of an administrator is needed. What
comes is checked by the signatures that this system trusts, and is gone with the folder.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assay.errors import MeasureError, UsageError
from assay.infra.outside import call
from assay.infra.record import is_root

# With `--reinstall` these come even where they are installed in part: a link of one leads to a file of the other.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "postgresql": ("postgresql",),
    "redis": ("redis-server", "redis-tools"),
    "prometheus": ("prometheus",),
}
_HOMEBREW = {"postgresql": "postgresql@17", "redis": "redis", "prometheus": "prometheus"}


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

"""The programs and ports of a system: chosen when it is first brought up, and kept as long as they can be had."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from assay.errors import MeasureError, UsageError
from assay.infra.processes.fetching import can_fetch, fetch, missing
from assay.infra.processes.parts import HERE
from assay.infra.processes.programs import find_programs
from assay.run.services.plan import free_port, refuse_taken

_USUAL = {"server": 8080, "prometheus": 9090}
"""Ports of those parts whose address people type."""

Tell = Callable[[str], None]


def programs_for(
    stores: Sequence[str], unpacked: Path, tell: Tell, *, may_fetch: bool, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The program of each part that is one of somebody else.

    Args:
        known: those of before; a newer PostgreSQL could not read the data of an older one.

    Raises:
        UsageError: if one is missing, with all that are.
        MeasureError: if one cannot be fetched.
    """
    old = {part: path for part, path in (known or {}).items() if part in stores and os.access(path, os.X_OK)}
    found = {**find_programs(stores, unpacked), **old}
    lacking = [part for part in stores if part not in found]
    if lacking and (not may_fetch or not can_fetch()):
        raise missing(lacking, refused=not may_fetch)
    if lacking:
        fetch(lacking, unpacked, tell)
        unpacked.chmod(0o755)  # other accounts start programs from it
        found = {**find_programs(stores, unpacked), **old}
    if lacking := [part for part in stores if part not in found]:
        raise missing(lacking, refused=False)
    return found


def ports_for(stores: Sequence[str], host: str, wanted: int | None) -> dict[str, int]:
    """A free port for each part; the usual one for those whose address people type, where it is free.

    Raises:
        UsageError: if that is taken.
    """
    ports: dict[str, int] = {}
    if wanted is not None:
        _refuse_taken(wanted, host)
        ports["server"] = wanted
    for part in ("server", *stores):
        if part not in ports:
            ports[part] = _usual_or_free(part, host if part == "server" else HERE, set(ports.values()))
    return ports


def ports_again(known: Mapping[str, int], host: str, wanted: int | None, tell: Tell) -> dict[str, int]:
    """The ports of before; a new one for each that somebody else has taken since.

    Raises:
        UsageError: if the server's port was asked for, and is taken.
    """
    ports = dict(known)
    if wanted is not None:
        _refuse_taken(wanted, host)
        ports["server"] = wanted
    for part, port in ports.items():
        at = host if part == "server" else HERE
        if _is_taken(port, at):
            ports[part] = free_port(set(ports.values()), at)
            tell(f"port {port} of {part} is taken by now; it gets {ports[part]}")
    return ports


def _usual_or_free(part: str, host: str, taken: set[int]) -> int:
    usual = _USUAL.get(part)
    if usual is not None and usual not in taken and not _is_taken(usual, host):
        return usual
    return free_port(taken, host)


def _is_taken(port: int, host: str) -> bool:
    with suppress(MeasureError):
        refuse_taken(port, "", host)
        return False
    return True


def _refuse_taken(port: int, host: str) -> None:
    if _is_taken(port, host):
        raise UsageError(
            f"port {port} is taken, or may not be used",
            code="port-taken",
            at="--port",
            try_="leave --port out: a free one is then chosen",
        )

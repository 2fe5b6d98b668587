"""Proofs of earlier calls: a framework is tried again when its version, the driver or the machine is another."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import JsonValue

from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.files import write_whole
from assay.hardware.frameworks.known import installed
from assay.hardware.frameworks.trial import prove

Facts = dict[str, JsonValue]

# What a framework stands on besides the others.
_BELOW = ("numpy", "protobuf", "jaxlib", "tokenizers", "safetensors")


def frameworks(
    cache: Path | None,
    *,
    machine: str,
    driver: str = "",
    fresh: bool = False,
    found: Mapping[str, str] | None = None,
    prove_one: Callable[[str], Facts] = prove,
    tell: Callable[[str], None] = lambda _: None,
    clock: Clock = SYSTEM_CLOCK,
) -> Facts:
    """Every framework that is installed: its version, and whether it works, by a proof."""
    versions = dict(installed() if found is None else found)
    known: Facts = {}
    for name, of_package in versions.items():
        file = None if cache is None else cache / "proofs" / f"{name}-{_key(name, versions, machine, driver)}.json"
        facts = None if fresh or file is None else _read(file)
        if facts is None:
            tell(name)
            facts = {**prove_one(name), "tried_at": iso(clock.utc())}
            if file is not None:
                with suppress(OSError):  # it is tried again next time
                    write_whole(file, json.dumps(facts).encode())
        known[name] = {"version": of_package or facts.get("version") or None, **_without(facts, "version")}
    return known


def _key(name: str, versions: Mapping[str, str], machine: str, driver: str) -> str:
    """What a proof holds for: a change in any of these asks for a new one."""
    below = {}
    for package in _BELOW:
        with suppress(PackageNotFoundError):
            below[package] = version(package)
    # Two environments with equal versions may still be installed differently.
    parts = [name, dict(versions), below, machine, driver, platform.python_version(), sys.prefix]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _read(file: Path) -> Facts | None:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"works", "tried_at"} <= found.keys() else None


def _without(facts: Facts, name: str) -> Facts:
    return {key: value for key, value in facts.items() if key != name}

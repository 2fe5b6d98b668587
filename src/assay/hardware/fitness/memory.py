"""How much memory is free, of the machine or of the share that a container may use, and what was swapped."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psutil
from pydantic import JsonValue

from assay.hardware.fitness.sysfs import number_of, text_of

_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_SWAPPED = re.compile(r"^pswp(in|out) (\d+)$", re.MULTILINE)
# Version 2 of control groups, then version 1: limit, use, and the name of what the kernel may drop at once.
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def memory(
    root: Path, ask: Callable[[], tuple[int, int, int, int]] | None = None
) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Read how much memory is free and how much swap is used.

    Args:
        ask: Tells total, available, swap total and swap used in bytes where there is no `/proc/meminfo`.

    Returns:
        What was read, and for what was not, the reason.
    """
    lines = {name: int(kib) * 1024 for name, kib in _LINE.findall(text_of(root / "proc/meminfo"))}
    if "MemTotal" in lines and "MemAvailable" in lines:
        swap = lines.get("SwapTotal", 0)
        told = (lines["MemTotal"], lines["MemAvailable"], swap, swap - lines.get("SwapFree", swap))
    elif root == Path("/") or ask is not None:
        told = (ask or _by_psutil)()
    else:
        return {}, {"memory": "the system does not tell how much memory is free"}
    total, available, swap, used = told
    facts: dict[str, JsonValue] = {
        "total_bytes": total,
        "available_bytes": available,
        "swap_total_bytes": swap,
        "swap_used_bytes": used,
    }
    moved = dict(_SWAPPED.findall(text_of(root / "proc/vmstat")))
    if len(moved) == 2:
        facts["swapped_pages"] = int(moved["in"]) + int(moved["out"])
    return facts | _of_group(root / "sys/fs/cgroup", total, available), {}


def _of_group(folder: Path, total: int, available: int) -> dict[str, JsonValue]:
    """What a container may use, where that is less than the machine has."""
    for limit_name, use_name, statistics, droppable in _GROUPS:
        limit, used = number_of(folder / limit_name), number_of(folder / use_name)
        if limit is None or used is None or limit >= total:
            continue
        match = re.search(rf"^{droppable} (\d+)$", text_of(folder / statistics), re.MULTILINE)
        free = max(0, limit - used + (int(match[1]) if match else 0))
        return {"limit_bytes": limit, "available_bytes": min(available, free)}
    return {}


def _by_psutil() -> tuple[int, int, int, int]:
    main, swap = psutil.virtual_memory(), psutil.swap_memory()
    return main.total, main.available, swap.total, swap.used

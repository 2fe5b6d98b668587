"""Which sizes are worth measuring: from caches, free memory and the cores that may be used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay.hardware.bench.outcome import TIMES_CACHE

SHAPES = (512, 1024, 2048, 4096, 8192, 16384)
# Sizes in units of the cache: two that show it, and three beyond it for the plateau.
TIMES = (1 / 16, 1 / 2, TIMES_CACHE, 8, 16)
_UNKNOWN_CACHE = (2**20, 2**23, 2**26, 2**27, 2**28, 2**29, 2**30)
_ALIGN = 2**16
# A sweep takes at most this share of what is free: others live here too.
SHARE = 0.5


def memory_sizes(
    cache: int | None, free: int | None, arrays: int, share: float = SHARE, times: Sequence[float] = TIMES
) -> tuple[int, ...]:
    """Bytes of one array, smallest first: below the last-level cache, around it, and several times beyond.

    Args:
        cache: bytes of the last-level cache, all its parts together; None where nobody knows.
    """
    wanted = _UNKNOWN_CACHE if cache is None else [int(cache * one) for one in times]
    most = None if free is None else int(free * share / arrays)
    sizes = sorted({max(_ALIGN, size // _ALIGN * _ALIGN) for size in wanted})
    fitting = [size for size in sizes if most is None or size <= most]
    if most is not None and len(fitting) < len(sizes) and most >= _ALIGN:
        fitting.append(most // _ALIGN * _ALIGN)  # as far out as memory goes
    return tuple(dict.fromkeys(fitting))


def fitting_shapes(
    shapes: Iterable[int], free: int | None, bytes_per_entry: float, share: float = 0.8
) -> tuple[tuple[int, ...], dict[str, str]]:
    """Shapes that memory holds, and why the others are left out."""
    wanted = tuple(shapes)
    if free is None:
        return wanted, {}
    needed = {n: int(n * n * bytes_per_entry) for n in wanted}
    fits = tuple(n for n in wanted if needed[n] <= share * free)
    reason = "{:,} bytes are needed, and of the {:,} that are free {:.0%} may be used"
    return fits, {str(n): reason.format(needed[n], free, share) for n in wanted if n not in fits}


def cpu_caches(root: str | Path = "/") -> tuple[int | None, int | None]:
    """Bytes of all last-level caches together, and of the second-level cache of one core; None where nobody tells."""
    from assay.hardware.cpu import cpu
    from assay.hardware.source import FactSource

    told = cpu(FactSource(Path(root))).get("caches")
    found = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    parts = [
        (int(str(one["level"])), int(str(one["size_bytes"])), int(str(one.get("instances") or 1)))
        for one in found
        if one.get("type") != "instruction"
    ]
    last = max((level for level, _, _ in parts), default=0)
    whole = sum(size * instances for level, size, instances in parts if level == last)
    second = min((size for level, size, _ in parts if level == 2), default=None)
    return whole or None, second


def free_memory(root: str | Path = "/") -> int | None:
    """Bytes of memory that a new program can have, within the limits of its container; None where nobody tells."""
    from assay.hardware.fitness.sensors import memory
    from assay.hardware.limits import limits
    from assay.hardware.source import FactSource

    told, _ = memory(Path(root))
    bound = limits(FactSource(Path(root))).memory
    known = [one for one in (told.get("available_bytes"), int(bound.value) if bound else None) if isinstance(one, int)]
    return min(known, default=None)


def usable_cpus(root: str | Path = "/") -> tuple[int, ...]:
    """Processors to measure with: those that this process may run on, no more than its container's quota."""
    from assay.hardware.limits import limits
    from assay.hardware.source import FactSource

    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    most = limits(FactSource(Path(root))).usable_cores
    return cores_in_order(tuple(allowed), root)[:most]


def cores_in_order(cpus: Sequence[int], root: str | Path = "/") -> tuple[int, ...]:
    """Processors with one of each physical core first: two threads of one core share its arithmetic."""
    folder = Path(root) / "sys/devices/system/cpu"
    seen: dict[str, int] = {}
    order: list[tuple[int, int]] = []
    for cpu in cpus:
        core = _read(folder / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        order.append((seen.get(core, 0), cpu))
        seen[core] = seen.get(core, 0) + 1
    return tuple(cpu for _, cpu in sorted(order))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""A large file read from start to end, as a model is loaded: from the disk, not from what the system still remembers.

Before each pass the system is asked to forget the file, and asked how much of it is still in memory. Where it does not
forget, the file is read past its cache (O_DIRECT); where that is not possible either, nothing is reported. What a disk
or a hypervisor keeps in a cache of its own cannot be seen from here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

from pydantic import JsonValue

from assay.hardware.bench.outcome import absent_result, metric_of
from assay.hardware.bench.records import GB, BenchOptions, BenchOutcome, SizePoint
from assay.hardware.bench.sweep import OVERTIME, enough
from assay.units import show_bytes

MOST_BYTES = 2 * 2**30
FREE_SHARE = 0.1
LEAST_BYTES = 64 * 2**20
_PIECE = 16 * 2**20  # of a write, and of a read past the cache
_READ = 2**20  # of an ordinary read
_FORGOTTEN = 0.02  # a file of which no more than this share is in memory counts as forgotten
_F_NOCACHE = 48  # macOS: read past the cache

Usage = Callable[[Path], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Way:
    """How a file is read from the disk itself."""

    name: str
    read: Callable[[int, int], int]
    """Reads an open file of this size; returns how many bytes it read."""


def storage(
    wish: BenchOptions, usage: Usage | None = None, resident: Callable[[int, int], float | None] | None = None
) -> BenchOutcome:
    """Make a file in a folder, read it several times, and leave nothing behind.

    The file has no name: it is gone when the process is, however that ends.

    Args:
        usage: total and free bytes of the folder's file system, for tests.
    """
    begin = perf_counter_ns()
    folder = Path(wish.folder or tempfile.gettempdir()).absolute()
    facts, refusal = _place(folder, usage)
    if refusal:
        return absent_result("storage", refusal, begin)
    free = facts.get("free_bytes")
    most = min(MOST_BYTES, int(FREE_SHARE * free)) if isinstance(free, int) else LEAST_BYTES
    if most < LEAST_BYTES:
        reason = f"{show_bytes(LEAST_BYTES)} are needed and a tenth of what is free may be used"
        return absent_result("storage", f"{folder} has {show_bytes(float(str(free)))} free: {reason}", begin)
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="assay-", buffering=0) as file:
            size = _write(file.fileno(), most, OVERTIME * wish.each_s)
            return _read(file.fileno(), size, wish.each_s, begin, facts, resident or resident_share)
    except OSError as problem:
        return absent_result("storage", f"{folder}: {problem.strerror or problem}", begin)


def _place(folder: Path, usage: Usage | None) -> tuple[dict[str, JsonValue], str]:
    """The file system of a folder, and why it cannot be measured."""
    from assay.hardware.components import file_systems
    from assay.hardware.source import FactSource

    entry = file_systems(FactSource(), {"storage": folder}, usage)["storage"]
    facts = {name: value for name, value in entry.items() if name != "folder"} if isinstance(entry, dict) else {}
    if not folder.is_dir():
        return facts, f"{folder} is no folder; name one with target.folder"
    if facts.get("in_memory"):
        return facts, f"{folder} lies in memory ({facts.get('type')}), not on a disk; name another with target.folder"
    return facts, ""


def _write(fd: int, most: int, at_most_s: float) -> int:
    """Write at most this many random bytes for at most this long; a slow disk gets a smaller file."""
    import numpy as np

    draw = np.random.default_rng()
    began, size = perf_counter_ns(), 0
    while size < most:
        # Every piece is new: a disk that compresses or deduplicates would otherwise store one piece.
        view = memoryview(draw.bytes(min(_PIECE, most - size)))
        while view:
            written = os.write(fd, view)
            view, size = view[written:], size + written
        if size % LEAST_BYTES == 0:
            os.fsync(fd)
            if (perf_counter_ns() - began) / 1e9 > at_most_s:
                break
    os.fsync(fd)
    return size


def _read(
    fd: int,
    size: int,
    each_s: float,
    begin: int,
    place: dict[str, JsonValue],
    resident: Callable[[int, int], float | None],
) -> BenchOutcome:
    way, still = _way(fd, size, resident)
    if way is None:
        return absent_result("storage", _kept_in_memory(still), begin)
    values: list[float] = []
    at_ns: list[int] = []
    spent: list[float] = []
    while not enough(spent, each_s):
        cached = forget(fd, size, resident) if way.name == _ORDINARY else 0.0
        if cached is None or cached > _FORGOTTEN:
            return absent_result("storage", _kept_in_memory(cached), begin)
        os.lseek(fd, 0, os.SEEK_SET)
        at_ns.append(perf_counter_ns())
        done = way.read(fd, size)
        spent.append((perf_counter_ns() - at_ns[-1]) / 1e9)
        values.append(done / spent[-1] / GB)
    point = SizePoint(size, tuple(values), tuple(at_ns), sum(spent) / len(spent))
    how: dict[str, JsonValue] = {
        "counted": "bytes of the file",
        "read": way.name,
        "data": "random bytes",
        "file_system": place,
        "not_seen": "what a disk or a hypervisor keeps in a cache of its own",
    }
    metric = metric_of("storage")
    return BenchOutcome("storage", metric, "bytes", begin, perf_counter_ns(), (point,), reported=point, how=how)


_ORDINARY = "ordinary reads, after the system had forgotten the file"
_DIRECT = "reads past the system's cache (O_DIRECT), as it did not forget the file"
_NO_CACHE = "reads past the system's cache (F_NOCACHE)"


def _way(fd: int, size: int, resident: Callable[[int, int], float | None]) -> tuple[_Way | None, float | None]:
    """How this file can be read from the disk itself; how much of it stays in memory where it cannot."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, _F_NOCACHE, 1)
        return _Way(_NO_CACHE, _read_plain), 0.0
    still = forget(fd, size, resident)
    if still is not None and still <= _FORGOTTEN:
        return _Way(_ORDINARY, _read_plain), still
    return (_Way(_DIRECT, _read_direct), still) if _goes_direct(fd) else (None, still)


def forget(fd: int, size: int, resident: Callable[[int, int], float | None]) -> float | None:
    """Drop a file from the page cache; return the share still in memory, None where unknown."""
    if not hasattr(os, "posix_fadvise"):
        return None
    os.fsync(fd)  # what is not written yet cannot be forgotten
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return resident(fd, size)


def resident_share(fd: int, size: int) -> float | None:
    """Share of a file's pages that are in memory, as the kernel tells; None where it does not."""
    import numpy as np

    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
    except (OSError, AttributeError):
        return None
    pages = -(-size // mmap.PAGESIZE)
    flags = np.zeros(pages, dtype=np.uint8)
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as mapped:
        whole = np.frombuffer(mapped, dtype=np.uint8)
        address = ctypes.c_void_p(whole.ctypes.data)
        failed = mincore(address, ctypes.c_size_t(size), ctypes.c_void_p(flags.ctypes.data))
        del whole  # the mapping cannot be closed while an array shows it
    return None if failed else float((flags & 1).mean())


def _goes_direct(fd: int) -> bool:
    """Turn on reading past the cache; False where the file system does not allow it."""
    direct = getattr(os, "O_DIRECT", 0)
    if not direct:
        return False
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | direct)
        os.lseek(fd, 0, os.SEEK_SET)
        with mmap.mmap(-1, mmap.PAGESIZE) as page:
            return os.readv(fd, [page]) == mmap.PAGESIZE
    except OSError:
        return False


def _read_plain(fd: int, size: int) -> int:
    return _read_into(fd, size, bytearray(_READ))


def _read_direct(fd: int, size: int) -> int:
    with mmap.mmap(-1, _PIECE) as aligned:  # the disk writes into it by itself, which needs whole pages
        return _read_into(fd, size, aligned)


def _read_into(fd: int, size: int, buffer: bytearray | mmap.mmap) -> int:
    done = 0
    while done < size:
        count = os.readv(fd, [buffer])
        if not count:
            break
        done += count
    return done


def _kept_in_memory(share: float | None) -> str:
    cached = "how much of it is still in memory is unknown" if share is None else f"{share:.0%} of it stay in memory"
    return f"the file cannot be read from the disk itself: {cached}, and reading past the cache is not possible"

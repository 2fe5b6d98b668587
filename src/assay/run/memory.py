"""Memory of this process as the kernel kept it: high-water marks, never a sampled guess."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

MB = 1e6
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def resident_mb() -> float:
    """Resident memory now."""
    return float(psutil.Process().memory_info().rss) / MB


def peak_mb() -> float | None:
    """The highest resident memory since the process began, or since `reset_peak`; None where nobody counts it."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MB
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / MB
    return lifetime_peak_mb()


def reset_peak() -> bool:
    """Start the high-water mark again from the present; False where the system does not allow it."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def lifetime_peak_mb() -> float | None:
    """The highest resident memory since the process began, which nothing can reset."""
    if sys.platform == "win32":
        return None
    import resource

    return rusage_mb(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def rusage_mb(ru_maxrss: int) -> float:
    """`ru_maxrss` in MB: bytes on macOS, KiB elsewhere."""
    return ru_maxrss / MB if sys.platform == "darwin" else ru_maxrss * 1024 / MB

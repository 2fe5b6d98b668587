"""The control workload from outside: how long a fixed amount of work takes now, and how busy others were meanwhile."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from pydantic import JsonValue

VARIABLE = "ASSAY_CONTROL"
PARTS = ("integer", "memory")
_SCRIPT = Path(__file__).with_name("loops.py")
_TIMEOUT_S = 60.0

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def is_off() -> bool:
    """Whether the environment asks for no control workload."""
    return os.environ.get(VARIABLE, "").lower() == "off"


def timed_control(run: Run = subprocess.run) -> tuple[dict[str, JsonValue], dict[str, JsonValue], str]:
    """Time the control workload in a bare interpreter.

    Returns:
        Its figures, what others did meanwhile, and, where it gave no figures, the reason.
    """
    before, begin = _busy(), time.perf_counter()
    try:
        # Without site packages and the user's settings: they would be loaded, and differ.
        done = run([sys.executable, "-I", "-S", str(_SCRIPT)], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as problem:
        return {}, {}, f"the control workload could not be run: {problem}"
    wall_s, after = time.perf_counter() - begin, _busy()
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {}, {}, f"the control workload ended with exit code {done.returncode}: {last}".rstrip(": ")
    try:
        told = json.loads(done.stdout)
        figures = summary(told)
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}, {}, "the control workload did not say how long it took"
    return figures, _others(before, after, wall_s, float(told.get("cpu_s", 0.0))), ""


def summary(told: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The median round of each part, with the spread of its rounds."""
    from statistics import median  # here, as it brings a dozen modules that a run without control does not need

    figures: dict[str, JsonValue] = {"version": int(told["version"])}
    for part in PARTS:
        took = [float(value) for value in told["rounds_ms"].get(part, ())]
        if not took or not all(math.isfinite(value) and value > 0 for value in took):
            continue
        middle = median(took)
        away = median(abs(value - middle) for value in took)
        figures[f"{part}_ms"] = round(middle, 4)
        figures[f"{part}_spread_pct"] = round(100 * 1.4826 * away / middle, 3)
        figures["rounds"] = len(took)
    if "rounds" not in figures:
        raise ValueError("no round was timed")
    if told.get("absent"):
        figures["memory_absent"] = str(told["absent"])
    return figures


def _busy() -> tuple[float, float | None]:
    """Busy and stolen seconds of all cores since the system started."""
    times = psutil.cpu_times()
    counted = {name: value for name, value in times._asdict().items() if name not in ("guest", "guest_nice")}
    stolen = counted.pop("steal", None)
    return sum(counted.values()) - times.idle - counted.get("iowait", 0.0), stolen


def _others(
    before: tuple[float, float | None], after: tuple[float, float | None], wall_s: float, own_s: float
) -> dict[str, JsonValue]:
    """What others and the hypervisor took of all cores while the control workload ran."""
    capacity = wall_s * (psutil.cpu_count() or 1)
    # Ticks of the kernel are coarser than our own clock, so a quiet machine can come out a little below zero.
    shares: dict[str, JsonValue] = {
        "others_pct": round(max(0.0, 100 * (after[0] - before[0] - own_s) / capacity), 2),
        "over_s": round(wall_s, 3),
    }
    if before[1] is not None and after[1] is not None:
        shares["steal_pct"] = round(max(0.0, 100 * (after[1] - before[1]) / capacity), 2)
    return shares

"""How figures are written inside the sentences of checks, gates and comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percent(share: float, *, signed: bool = False) -> str:
    """A share as a percentage: `0.042` is `4.2 %`."""
    if not math.isfinite(share):
        return "an unknown share"
    value = 100 * share
    places = 2 if abs(value) < 0.1 and value else 1 if abs(value) < 10 else 0
    return f"{value:{'+' if signed else ''},.{places}f} %"


def count(number: int, thing: str) -> str:
    """A number with its noun: `1 run`, `5 runs`, `12,000 samples`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def all_of(number: int, thing: str) -> str:
    """All of some things: `the run`, `both runs`, `all 5 runs`."""
    return {1: f"the {thing}", 2: f"both {thing}s"}.get(number, f"all {count(number, thing)}")


def run_name(run_id: int) -> str:
    """A run as people number it, from 1: `run 3`."""
    return f"run {run_id + 1}"


def run_names(run_ids: Sequence[int]) -> str:
    """Some runs as people number them: `run 3`, `runs 1, 2 and 4 more`."""
    return f"run{'' if len(run_ids) == 1 else 's'} {listed([str(run_id + 1) for run_id in run_ids])}"


def number(value: float) -> str:
    """A value with four significant digits: `0.01234`, `12.34`, `123,457`."""
    if not math.isfinite(value):
        return str(value)
    if value and (abs(value) >= 1e15 or abs(value) < 1e-4):
        return f"{value:.4g}"
    places = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float, unit: str) -> str:
    """A value with its unit: `12.34 ms`."""
    return f"{number(value)} {unit}".rstrip()


def listed(names: Sequence[str], *, most: int = 5) -> str:
    """Names in a row, the last ones counted only: `1, 2, 3 and 4 more`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

"""When each machine of a shared load began: how far apart, and how far their clocks can be trusted in that."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from assay.analyse.merge.overlap import PartRun


def starts_of(parts: Sequence[PartRun]) -> dict[str, JsonValue] | None:
    """How far the starts were apart; None where a part does not tell when it began."""
    begins = {part.host: begin for part in parts if (begin := _number(part, "clock", "load_begin_epoch_ns"))}
    if len(begins) < len(parts) or not begins:
        return None
    first = min(begins.values())
    bounds = {part.host: found for part in parts if (found := _bounds(part)) is not None}
    return {
        "skew_s": (max(begins.values()) - first) / 1e9,
        "after_first_s": {str(host): (begin - first) / 1e9 for host, begin in begins.items()},
        "met": all(isinstance(part.result.facts.get("barrier"), dict) for part in parts),
        "waited_s": max((_number(part, "barrier", "waited_s") or 0.0 for part in parts), default=0.0),
        "clock_offset_from_host_0_s": {str(host): [low, high] for host, (low, high) in bounds.items()},
        "clocks_apart_s_at_least": max((max(low, -high, 0.0) for low, high in bounds.values()), default=None),
    }


def _number(part: PartRun, section: str, name: str) -> float | None:
    found = part.result.facts.get(section)
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bounds(part: PartRun) -> tuple[float, float] | None:
    found = part.result.facts.get("barrier")
    told = found.get("clock_offset_from_host_0_s") if isinstance(found, dict) else None
    ends = [one for one in told if isinstance(one, int | float)] if isinstance(told, list) else []
    return (float(ends[0]), float(ends[1])) if len(ends) == 2 else None

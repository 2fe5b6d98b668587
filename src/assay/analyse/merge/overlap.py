"""When all machines of a shared load were loading at once, and how far apart they began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from assay.analyse.text import number
from assay.run.load.requests import RequestLog
from assay.run.records import Failure, SampleSet, SingleRunResult

# Less of the asked duration than this is chance, not a shared load.
LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class PartRun:
    """One run of one machine's part, with all that it left."""

    host: int
    result: SingleRunResult
    samples: tuple[SampleSet, ...] = ()
    requests: RequestLog | None = None
    """None where the file of its requests is not there."""

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """Begin and end of its measured window on the clock of the day; None where they are not known."""
        clock = self.result.facts.get("clock")
        found = [clock.get(name) for name in _ENDS] if isinstance(clock, dict) else []
        ends = [one for one in found if isinstance(one, int)]
        return (ends[0], ends[1]) if len(ends) == len(_ENDS) else None


_ENDS = ("window_begin_epoch_ns", "window_end_epoch_ns")


@dataclass(frozen=True, slots=True)
class Overlap:
    """The time in which every machine measured, on the clock of the day."""

    begin_ns: int
    end_ns: int

    @property
    def length_s(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9

    def inside(self, part: PartRun) -> tuple[int, int]:
        """Its begin and end, from the begin of a part's own window."""
        own = part.window_ns
        if own is None:
            raise ValueError(f"the window of host {part.host} is not known")
        return self.begin_ns - own[0], self.end_ns - own[0]

    def facts(self, duration_s: float) -> dict[str, JsonValue]:
        """What is told about it."""
        return {
            "begin_epoch_ns": self.begin_ns,
            "end_epoch_ns": self.end_ns,
            "length_s": self.length_s,
            "asked_s": duration_s,
            "offset": "the machines' clocks are taken as they are; how far they are apart is not known",
        }


def overlap_of(parts: Sequence[PartRun], hosts: int, duration_s: float) -> Overlap | Failure:
    """When all parts of a run were measured, or why they cannot be put together."""
    missing = [str(host) for host in range(hosts) if host not in {part.host for part in parts}]
    if missing:
        what = "host" if len(missing) == 1 else "hosts"
        return Failure(
            "missing-part",
            f"there is no run of {what} {', '.join(missing)} of {hosts}",
            phase="merge",
            try_="measure all parts: `assay campaigns resubmit CAMPAIGN`",
        )
    for part in parts:
        if part.result.error is not None:
            error = part.result.error
            return Failure(error.code, f"host {part.host}: {error.message}", phase="merge", try_=error.try_)
    windows = {part.host: part.window_ns for part in parts}
    untold = next((part for part in parts if part.window_ns is None or part.requests is None), None)
    if untold is not None:
        return Failure(
            "no-requests",
            f"host {untold.host} left no times of its requests",
            phase="merge",
            try_="measure again with this version on every agent",
        )
    known = [window for window in windows.values() if window is not None]
    found = Overlap(max(begin for begin, _ in known), min(end for _, end in known))
    if found.length_s >= LEAST_SHARE * duration_s:
        return found
    return Failure(
        "no-overlap",
        _apart(windows, found, duration_s),
        phase="merge",
        try_="have as many idle agents as load.hosts, clocks that agree, a longer duration",
    )


def _apart(windows: dict[int, tuple[int, int] | None], found: Overlap, duration_s: float) -> str:
    first = min(window[0] for window in windows.values() if window is not None)
    begins = [f"host {host} after {number((window[0] - first) / 1e9)} s" for host, window in windows.items() if window]
    together = f"all were loading together for {number(max(found.length_s, 0.0))} s of {number(duration_s)} s"
    return f"{together}, less than half: they began to measure one after another ({', '.join(begins)})"


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

"""When all machines of a shared load were loading together, and the numbers of that time, counted from the requests.

Rates are counted again, never added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.records import section
from assay.analyse.text import number
from assay.run.load.http.recording import CODE, NEVER, OUTCOMES, SLOT_NS, RequestLog, RequestRows
from assay.run.records import Failure, SampleSet, SingleRunResult
from assay.spec.benchmark import Definition
from assay.spec.target import Served

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
        clock = section(self.result.facts, "clock")
        moments = [clock.get(name) for name in _ENDS]
        ends = [moment for moment in moments if isinstance(moment, int)]
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
        """The facts of the merged run."""
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
        message = f"there is no run of {what} {', '.join(missing)} of {hosts}"
        return _refused("missing-part", message, "measure all parts: `assay campaigns resubmit CAMPAIGN`")
    for part in parts:
        if part.result.error is not None:
            error = part.result.error
            return _refused(error.code, f"host {part.host}: {error.message}", error.try_)
    windows = {part.host: part.window_ns for part in parts}
    unknown = next((part for part in parts if part.window_ns is None or part.requests is None), None)
    if unknown is not None:
        message = f"host {unknown.host} left no times of its requests"
        return _refused("no-requests", message, "measure again with this version on every agent")
    intervals = [window for window in windows.values() if window is not None]
    overlap = Overlap(max(begin for begin, _ in intervals), min(end for _, end in intervals))
    if overlap.length_s >= LEAST_SHARE * duration_s:
        return overlap
    remedy = "have as many idle agents as load.hosts, clocks that agree, a longer duration"
    return _refused("no-overlap", _apart(windows, overlap, duration_s), remedy)


def _refused(code: str, message: str, remedy: str) -> Failure:
    return Failure(code, message, phase="merge", try_=remedy)


def _apart(windows: dict[int, tuple[int, int] | None], overlap: Overlap, duration_s: float) -> str:
    first = min(window[0] for window in windows.values() if window is not None)
    begins = [f"host {host} after {number((window[0] - first) / 1e9)} s" for host, window in windows.items() if window]
    together = f"all were loading together for {number(max(overlap.length_s, 0.0))} s of {number(duration_s)} s"
    return f"{together}, less than half: they began to measure one after another ({', '.join(begins)})"


def starts_of(parts: Sequence[PartRun]) -> dict[str, JsonValue] | None:
    """How far the starts were apart; None where a part does not say when it began."""
    begins = {part.host: begin for part in parts if (begin := _number(part, "clock", "load_begin_epoch_ns"))}
    if len(begins) < len(parts) or not begins:
        return None
    first = min(begins.values())
    bounds = {part.host: host_bounds for part in parts if (host_bounds := _bounds(part)) is not None}
    return {
        "skew_s": (max(begins.values()) - first) / 1e9,
        "after_first_s": {str(host): (begin - first) / 1e9 for host, begin in begins.items()},
        "met": all(isinstance(part.result.facts.get("barrier"), dict) for part in parts),
        "waited_s": max((_number(part, "barrier", "waited_s") or 0.0 for part in parts), default=0.0),
        "clock_offset_from_host_0_s": {str(host): [low, high] for host, (low, high) in bounds.items()},
        "clocks_apart_s_at_least": max((max(low, -high, 0.0) for low, high in bounds.values()), default=None),
    }


def _number(part: PartRun, group: str, name: str) -> float | None:
    value = section(part.result.facts, group).get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bounds(part: PartRun) -> tuple[float, float] | None:
    offsets = section(part.result.facts, "barrier").get("clock_offset_from_host_0_s")
    ends = [offset for offset in offsets if isinstance(offset, int | float)] if isinstance(offsets, list) else []
    return (float(ends[0]), float(ends[1])) if len(ends) == 2 else None


OK, UNFINISHED, SKIPPED, STATUS = (CODE[name] for name in ("ok", "unfinished", "skipped", "status"))
COUNTED = (
    "throughput_per_s", "offered_per_s", "concurrency", "error_rate", "skipped", "goodput_per_s",
    "input_tokens_per_s", "output_tokens_per_s", "cost", "cost_per_million_output",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRequests(RequestRows):
    """The requests of all parts on one clock, which begins with the time that they share."""

    good: NDArray[np.bool_] | None
    """None where a part could not tell."""
    arrived: float | None
    """Output tokens that arrived in that time; None where a part could not count them."""
    length_ns: int

    @property
    def due(self) -> NDArray[np.bool_]:
        """The requests that were due in that time."""
        return (self.due_ns >= 0) & (self.due_ns < self.length_ns)

    @property
    def finished(self) -> NDArray[np.bool_]:
        """The requests that ended well in that time, whenever they were due."""
        mask: NDArray[np.bool_] = (self.outcome == OK) & (self.end_ns >= 0) & (self.end_ns < self.length_ns)
        return mask


def join(parts: Sequence[PartRun], overlap: Overlap) -> JoinedRequests:
    """Put the requests of all parts on one clock."""
    request_windows = [(part.requests, overlap.inside(part)) for part in parts if part.requests is not None]
    columns = {
        name: np.concatenate(
            [
                np.where((at := getattr(requests, name)) == NEVER, NEVER, at - begin)
                for requests, (begin, _) in request_windows
            ]
        )
        for name in ("due_ns", "sent_ns", "end_ns")
    }
    others = {
        name: np.concatenate([getattr(requests, name) for requests, _ in request_windows])
        for name in ("outcome", "status", "input_tokens", "output_tokens")
    }
    good_known = all(requests.good.size or not len(requests) for requests, _ in request_windows)
    counts = [_arrived(requests, begin, end) for requests, (begin, end) in request_windows]
    return JoinedRequests(
        **columns,
        **others,
        good=np.concatenate([requests.good for requests, _ in request_windows]) if good_known else None,
        arrived=None if None in counts else float(sum(count for count in counts if count is not None)),
        length_ns=overlap.end_ns - overlap.begin_ns,
    )


def _arrived(requests: RequestLog, begin: int, end: int) -> float | None:
    """Tokens between two moments; those of a millisecond that lies across one of them count by its share."""
    if not requests.arrived.size:
        return None
    slots = np.arange(requests.arrived.size + 1) * SLOT_NS
    total = np.concatenate([[0], np.cumsum(requests.arrived)])
    low, high = np.interp([begin, end], slots, total)
    return float(high - low)


def totals(joined: JoinedRequests, definition: Definition) -> tuple[dict[str, float], dict[str, str]]:
    """Metric → value, and metric → why it is absent."""
    length_s = joined.length_ns / 1e9
    due, finished = joined.due, joined.finished
    if not due.any():
        why = "no request was due while all machines were loading"
        return {}, dict.fromkeys(("throughput_per_s", "offered_per_s", "error_rate", "concurrency"), why)
    codes = joined.outcome[due]
    metrics = {
        "throughput_per_s": float(np.count_nonzero(finished)) / length_s,
        "offered_per_s": len(codes) / length_s,
        "concurrency": _in_flight(joined),
        "error_rate": float(np.count_nonzero((codes != OK) & (codes != UNFINISHED))) / len(codes),
        "skipped": float(np.count_nonzero(codes == SKIPPED)),
    }
    absent: dict[str, str] = {}
    if joined.good is not None:
        metrics["goodput_per_s"] = float(np.count_nonzero(joined.good & finished)) / length_s
    else:
        absent["goodput_per_s"] = "not every machine could tell which requests met the objective"
    tokens = joined.input_tokens[finished]
    if (tokens >= 0).all():
        metrics["input_tokens_per_s"] = float(tokens.sum()) / length_s
    else:
        absent["input_tokens_per_s"] = f"the tokens of {np.count_nonzero(tokens < 0)} of {len(tokens)} are not known"
    if joined.arrived is not None:
        metrics["output_tokens_per_s"] = joined.arrived / length_s
    else:
        absent["output_tokens_per_s"] = "not every machine could count the tokens that arrived"
    cost, no_cost = _costs(joined, definition)
    return metrics | cost, absent | no_cost


def _in_flight(joined: JoinedRequests) -> float:
    sent = joined.sent_ns != NEVER
    stop = np.where(joined.end_ns[sent] == NEVER, joined.length_ns, joined.end_ns[sent])
    open_ns = np.minimum(stop, joined.length_ns) - np.maximum(joined.sent_ns[sent], 0)
    return float(np.maximum(open_ns, 0).sum()) / joined.length_ns


def _costs(joined: JoinedRequests, definition: Definition) -> tuple[dict[str, float], dict[str, str]]:
    """What the requests cost that were due in that time and ended well."""
    price = definition.target.price if isinstance(definition.target, Served) else None
    if price is None:
        return {}, {}
    names = ("cost", "cost_per_million_output")
    ended = joined.due & (joined.outcome == OK)
    into, out = joined.input_tokens[ended], joined.output_tokens[ended]
    if not ended.any():
        return {}, dict.fromkeys(names, "no measured request ended well")
    if (price.input and (into < 0).any()) or (price.output and (out < 0).any()):
        return {}, dict.fromkeys(names, "the tokens of some requests are not known")
    tokens_out = int(np.maximum(out, 0).sum())
    cost = (price.input * int(np.maximum(into, 0).sum()) + price.output * tokens_out) / 1e6
    if not tokens_out:
        return {"cost": cost}, {"cost_per_million_output": "the measured requests gave no output tokens"}
    return {"cost": cost, "cost_per_million_output": cost / tokens_out * 1e6}, {}


def request_facts(joined: JoinedRequests) -> dict[str, JsonValue]:
    """How the requests that were due in that time ended."""
    codes = joined.outcome[joined.due]
    counts: dict[str, JsonValue] = {
        name: int(np.count_nonzero(codes == CODE[name])) for name in ("ok", "unfinished", "skipped")
    }
    bad = int(np.count_nonzero((codes != OK) & (codes != UNFINISHED) & (codes != SKIPPED)))
    return {"due": len(codes), **counts, "failed": bad}


def error_facts(joined: JoinedRequests, parts: Sequence[PartRun]) -> dict[str, JsonValue]:
    """Failures of that time by kind, with the first words that a part kept about such a one."""
    bad = joined.due & ~np.isin(joined.outcome, (OK, UNFINISHED, SKIPPED))
    status = np.where(joined.outcome[bad] == STATUS, joined.status[bad], 0).astype(np.int64)
    codes, counts = np.unique(joined.outcome[bad].astype(np.int64) * 1000 + status, return_counts=True)
    ranked = sorted(zip(counts.tolist(), codes.tolist(), strict=True), reverse=True)
    kinds = {
        f"status {code % 1000}" if code // 1000 == STATUS else OUTCOMES[code // 1000]: count for count, code in ranked
    }
    first: dict[str, str] = {}
    for part in parts:
        for name, entry in section(part.result.facts, "errors").items():
            if isinstance(entry, dict):
                first.setdefault(name.partition(":")[0], str(entry.get("first", "")))
    return {kind: {"count": count, "first": first.get(kind, "")} for kind, count in kinds.items()}

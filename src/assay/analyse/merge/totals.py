"""Numbers of the window in which all machines were loading, counted again from their requests: rates are not added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.analyse.merge.overlap import Overlap, PartRun
from assay.run.load.http.recording import CODE, OUTCOMES
from assay.run.load.requests import NEVER, SLOT_NS, RequestLog, RequestRows
from assay.spec.benchmark import Definition
from assay.spec.target import Price, Served

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
        found: NDArray[np.bool_] = (self.outcome == OK) & (self.end_ns >= 0) & (self.end_ns < self.length_ns)
        return found


def join(parts: Sequence[PartRun], overlap: Overlap) -> JoinedRequests:
    """Put the requests of all parts on one clock."""
    known = [(part.requests, overlap.inside(part)) for part in parts if part.requests is not None]
    columns = {
        name: np.concatenate([_shifted(getattr(one, name), begin) for one, (begin, _) in known])
        for name in ("due_ns", "sent_ns", "end_ns")
    }
    others = {
        name: np.concatenate([getattr(one, name) for one, _ in known])
        for name in ("outcome", "status", "input_tokens", "output_tokens")
    }
    told = all(one.good.size or not len(one) for one, _ in known)
    counts = [_arrived(one, begin, end) for one, (begin, end) in known]
    return JoinedRequests(
        **columns,
        **others,
        good=np.concatenate([one.good for one, _ in known]) if told else None,
        arrived=None if None in counts else float(sum(one for one in counts if one is not None)),
        length_ns=overlap.end_ns - overlap.begin_ns,
    )


def _shifted(at_ns: NDArray[np.int64], begin: int) -> NDArray[np.int64]:
    return np.where(at_ns == NEVER, NEVER, at_ns - begin)


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
    if any((tokens < 0).any() for tokens in _paid(price, into, out)):
        return {}, dict.fromkeys(names, "the tokens of some requests are not known")
    tokens_out = int(np.maximum(out, 0).sum())
    cost = (price.input * int(np.maximum(into, 0).sum()) + price.output * tokens_out) / 1e6
    if not tokens_out:
        return {"cost": cost}, {"cost_per_million_output": "the measured requests gave no output tokens"}
    return {"cost": cost, "cost_per_million_output": cost / tokens_out * 1e6}, {}


def _paid(price: Price, into: NDArray[np.int64], out: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [tokens for rate, tokens in ((price.input, into), (price.output, out)) if rate]


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
    found = sorted(zip(counts.tolist(), codes.tolist(), strict=True), reverse=True)
    kinds = {_kind(*divmod(code, 1000)): count for count, code in found}
    return {kind: {"count": count, "first": _words(kind, parts)} for kind, count in kinds.items()}


def _kind(outcome: int, status: int) -> str:
    return f"status {status}" if outcome == STATUS else OUTCOMES[outcome]


def _words(kind: str, parts: Sequence[PartRun]) -> str:
    for part in parts:
        errors = part.result.facts.get("errors")
        for name, told in errors.items() if isinstance(errors, dict) else ():
            if name.partition(":")[0] == kind and isinstance(told, dict):
                return str(told.get("first", ""))
    return ""

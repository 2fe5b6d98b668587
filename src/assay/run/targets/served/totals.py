"""Numbers of the whole window: what was offered, what came back, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.apis.contract import Api
from assay.run.load.http.recording import CODE, Recording
from assay.run.targets.served.requests import OK, UNFINISHED
from assay.run.targets.served.rows import Rows
from assay.spec.target import Price

SKIPPED = CODE["skipped"]
Numbers = tuple[dict[str, float], dict[str, str]]
"""Metric → value, and metric → why it is absent."""


def window_totals(recording: Recording, rows: Rows, api: Api) -> Numbers:
    """Rates, concurrency and errors of the measured window."""
    begin, end = recording.window
    length_s = (end - begin) / 1e9
    due = recording.measured()
    if length_s <= 0 or not len(due):
        why = "no request was due in the measured window"
        return {}, dict.fromkeys(("throughput_per_s", "offered_per_s", "error_rate", "concurrency"), why)
    inside = ended_inside(recording, rows)
    codes = rows.outcome[due]
    failed = int(np.count_nonzero((codes != OK) & (codes != UNFINISHED)))
    metrics = {
        "throughput_per_s": float(np.count_nonzero(inside)) / length_s,
        "offered_per_s": len(due) / length_s,
        "concurrency": in_flight(recording),
        "error_rate": failed / len(due),
        "skipped": float(np.count_nonzero(codes == SKIPPED)),
    }
    absent: dict[str, str] = {}
    if api.counts_input:
        _per_second("input_tokens_per_s", rows.input_tokens[inside], length_s, metrics, absent)
    if api.generates:
        _output_rate(recording, rows, length_s, metrics, absent)
    return metrics, absent


def ended_inside(recording: Recording, rows: Rows) -> NDArray[np.bool_]:
    """The requests that ended well in the window, whenever they were due: throughput and goodput count these."""
    begin, end = recording.window
    found: NDArray[np.bool_] = (rows.outcome == OK) & (recording.end_ns >= begin) & (recording.end_ns < end)
    return found


def counted(recording: Recording, rows: Rows, metrics: Mapping[str, float]) -> dict[str, JsonValue]:
    """What was done in the measured window, and when that was: the numbers behind the rates."""
    begin, end = recording.window
    found: dict[str, JsonValue] = {
        "items": int(np.count_nonzero(ended_inside(recording, rows))),
        "window_ns": [begin, end],
    }
    if "output_tokens_per_s" in metrics:
        arrived = (recording.piece_ns >= begin) & (recording.piece_ns < end)
        found["output_tokens"] = int(rows.piece_tokens[arrived].sum(dtype=np.int64))
    return found


def in_flight(recording: Recording) -> float:
    """Requests in flight, averaged over the window by time."""
    begin, end = recording.window
    sent = recording.sent_ns > 0
    stop = recording.end_ns[sent].copy()
    stop[stop == 0] = end
    open_ns = np.minimum(stop, end) - np.maximum(recording.sent_ns[sent], begin)
    return float(np.maximum(open_ns, 0).sum()) / (end - begin)


def _per_second(
    name: str, tokens: NDArray[np.int32], length_s: float, metrics: dict[str, float], absent: dict[str, str]
) -> None:
    """A rate of tokens, if those of every request are known: a sum with holes would be too small."""
    unknown = int(np.count_nonzero(tokens < 0))
    if unknown:
        absent[name] = f"the tokens of {unknown} of {len(tokens)} requests are not known"
    else:
        metrics[name] = float(tokens.sum(dtype=np.int64)) / length_s


def _output_rate(
    recording: Recording, rows: Rows, length_s: float, metrics: dict[str, float], absent: dict[str, str]
) -> None:
    """Tokens that arrived inside the window, of whatever answer."""
    begin, end = recording.window
    ok = rows.outcome == OK
    unknown = int(np.count_nonzero(ok & (rows.output_tokens < 0)))
    if unknown:
        absent["output_tokens_per_s"] = f"the tokens of {unknown} of {np.count_nonzero(ok)} answers are not known"
        return
    arrived = (recording.piece_ns >= begin) & (recording.piece_ns < end)
    metrics["output_tokens_per_s"] = float(rows.piece_tokens[arrived].sum(dtype=np.int64)) / length_s


def costs(recording: Recording, rows: Rows, price: Price | None) -> Numbers:
    """What the measured requests cost at the rates of the file."""
    if price is None:
        return {}, {}
    names = ("cost", "cost_per_million_output")
    ended = (rows.outcome == OK) & (recording.phase == 1)
    into, out = rows.input_tokens[ended], rows.output_tokens[ended]
    needed = [tokens for rate, tokens in ((price.input, into), (price.output, out)) if rate]
    unknown = max((int(np.count_nonzero(tokens < 0)) for tokens in needed), default=0)
    if not ended.any():
        return {}, dict.fromkeys(names, "no measured request ended well")
    if unknown:
        return {}, dict.fromkeys(names, f"the tokens of {unknown} of {len(into)} requests are not known")
    tokens_out = int(np.maximum(out, 0).sum(dtype=np.int64))
    tokens_in = int(np.maximum(into, 0).sum(dtype=np.int64))
    cost = (price.input * tokens_in + price.output * tokens_out) / 1e6
    if not tokens_out:
        return {"cost": cost}, {"cost_per_million_output": "the measured requests gave no output tokens"}
    return {"cost": cost, "cost_per_million_output": cost / tokens_out * 1e6}, {}

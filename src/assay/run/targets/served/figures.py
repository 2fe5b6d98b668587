"""From what clients saw and what answers said to samples, metrics, the reasons for what is missing, and facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.apis.contract import ServedApi
from assay.run.load.http.recording import MEASURE, WARMUP, LoadRecording
from assay.run.records import SamplePhase, SampleSet
from assay.run.targets.served.facts import gather
from assay.run.targets.served.request_metrics import (
    OK,
    SKIPPED,
    UNFINISHED,
    Gaps,
    GoodRequests,
    chunk_gaps,
    column,
    is_column,
    judge,
    samples,
    token_gaps,
)
from assay.run.targets.served.rows import Rows
from assay.spec.benchmark import Definition
from assay.spec.target import Price, Served

Numbers = tuple[dict[str, float], dict[str, str]]
"""Metric → value, and metric → why it is absent."""

_OF_TEXT = (
    "ttft_ms", "first_answer_ms", "tpot_ms", "e2e_ms", "service_ms", "schedule_delay_ms",
    "input_tokens", "output_tokens", "user_tokens_per_s",
)  # fmt: skip
_OF_OTHERS = ("latency_ms", "service_ms", "schedule_delay_ms")
_OF_PROBES = (*_OF_OTHERS, "e2e_ms")
_NEED_STREAM = ("ttft_ms", "itl_ms", "chunk_gap_ms", "tpot_ms", "user_tokens_per_s")
_NEED_COUNT = ("itl_ms", "tpot_ms", "user_tokens_per_s", "output_tokens")
_NOT_COUNTED = "the server gave no usage, has no tokenizer endpoint, and target.tokenizer names none"
_PHASES: tuple[tuple[int, SamplePhase], ...] = ((WARMUP, "warmup"), (MEASURE, "measure"))


def window_totals(recording: LoadRecording, rows: Rows, api: ServedApi) -> Numbers:
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


def ended_inside(recording: LoadRecording, rows: Rows) -> NDArray[np.bool_]:
    """The requests that ended well in the window, whenever they were due: throughput and goodput count these."""
    begin, end = recording.window
    inside: NDArray[np.bool_] = (rows.outcome == OK) & (recording.end_ns >= begin) & (recording.end_ns < end)
    return inside


def counted(recording: LoadRecording, rows: Rows, metrics: Mapping[str, float]) -> dict[str, JsonValue]:
    """What was done in the measured window, and when that was: the numbers behind the rates."""
    begin, end = recording.window
    facts: dict[str, JsonValue] = {
        "items": int(np.count_nonzero(ended_inside(recording, rows))),
        "window_ns": [begin, end],
    }
    if "output_tokens_per_s" in metrics:
        arrived = (recording.piece_ns >= begin) & (recording.piece_ns < end)
        facts["output_tokens"] = int(rows.piece_tokens[arrived].sum(dtype=np.int64))
    return facts


def in_flight(recording: LoadRecording) -> float:
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
    recording: LoadRecording, rows: Rows, length_s: float, metrics: dict[str, float], absent: dict[str, str]
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


def costs(recording: LoadRecording, rows: Rows, price: Price | None) -> Numbers:
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


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    samples: tuple[SampleSet, ...]
    metrics: Mapping[str, float]
    absent: Mapping[str, str]
    facts: Mapping[str, JsonValue]
    judged: GoodRequests
    """Which requests met the objective by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class ProbeFigures:
    """What the window of one probe of a rate gives."""

    samples: Mapping[str, NDArray[np.float64]]
    """Metric → the values that its statistics are taken of: those of requests without gaps, and all token gaps."""
    metrics: Mapping[str, float]


def figures(recording: LoadRecording, rows: Rows, api: ServedApi, definition: Definition) -> Figures:
    sample_sets = tuple(_samples(recording, rows, api))
    metrics, absent = window_totals(recording, rows, api)
    target = definition.target
    if isinstance(target, Served):
        cost, no_cost = costs(recording, rows, target.price)
        metrics |= cost
        absent |= no_cost
    judged = judge(recording, rows, definition.objective)
    if definition.objective:
        _goodput(recording, rows, judged, metrics, absent)
    absent |= _missing(
        recording, rows, api, {sample_set.metric for sample_set in sample_sets if sample_set.phase == "measure"}
    )
    facts = gather(recording, rows, api, definition.load, metrics)
    facts["counted"] = counted(recording, rows, metrics)
    if definition.objective:
        facts["goodput"] = {"judged_by": list(judged.by), "ignored": dict(judged.ignored)}
    if isinstance(target, Served) and target.price is not None:
        facts["cost"] = {"currency": target.price.currency, "of": "requests that were due in the window and ended well"}
    return Figures(sample_sets, metrics, absent, facts, judged)


def probe_figures(recording: LoadRecording, rows: Rows, api: ServedApi, definition: Definition) -> ProbeFigures:
    """What a search for a rate needs of one probe."""
    due = recording.measured()
    columns = {name: column(name, recording, rows)[due] for name in (_OF_TEXT if api.generates else _OF_PROBES)}
    values = {name: series[np.isfinite(series)] for name, series in columns.items()}
    if api.generates:
        for name, gaps in _gaps(recording, rows):
            values[name] = samples(gaps, recording.phase[gaps.row] == MEASURE)[1]
    metrics, _ = window_totals(recording, rows, api)
    _goodput(recording, rows, judge(recording, rows, definition.objective), metrics, {})
    return ProbeFigures(values, metrics)


def _gaps(recording: LoadRecording, rows: Rows) -> tuple[tuple[str, Gaps], ...]:
    return ("itl_ms", token_gaps(recording, rows)), ("chunk_gap_ms", chunk_gaps(recording, rows))


def _samples(recording: LoadRecording, rows: Rows, api: ServedApi) -> Iterator[SampleSet]:
    """The samples of each metric and phase in the order of their time, which runs from the start of the phase."""
    begins = {"measure": recording.window[0], "warmup": _warmup_begin(recording)}
    by_due = np.argsort(recording.due_ns, kind="stable")
    order = {code: by_due[recording.phase[by_due] == code] for code, _ in _PHASES}
    for name in _OF_TEXT if api.generates else _OF_OTHERS if not api.counts_input else (*_OF_OTHERS, "input_tokens"):
        values = column(name, recording, rows)
        for code, phase in _PHASES:
            there = order[code][np.isfinite(values[order[code]])]
            if len(there):
                yield SampleSet(name, phase, recording.due_ns[there] - begins[phase], values[there])
    if not api.generates:
        return
    for name, gaps in _gaps(recording, rows):
        for code, phase in _PHASES:
            at, values = samples(gaps, recording.phase[gaps.row] == code)
            if len(values):
                yield SampleSet(name, phase, at - begins[phase], values)


def _warmup_begin(recording: LoadRecording) -> int:
    due = recording.due_ns[recording.phase == WARMUP]
    return int(due.min()) if len(due) else recording.window[0]


def _goodput(
    recording: LoadRecording,
    rows: Rows,
    judged: GoodRequests,
    metrics: dict[str, float],
    absent: dict[str, str],
) -> None:
    length_s = (recording.window[1] - recording.window[0]) / 1e9
    if judged.absent or length_s <= 0:
        absent["goodput_per_s"] = judged.absent or "the measured window has no length"
    else:
        metrics["goodput_per_s"] = float(np.count_nonzero(judged.good & ended_inside(recording, rows))) / length_s


def _missing(recording: LoadRecording, rows: Rows, api: ServedApi, metrics: set[str]) -> dict[str, str]:
    ended = np.flatnonzero((recording.phase == MEASURE) & (rows.outcome == OK))
    if api.generates:
        names = {*_OF_TEXT, "itl_ms", "chunk_gap_ms"} - metrics - {"first_answer_ms", "schedule_delay_ms"}
        return {name: _why(name, rows, ended, api) for name in names}
    names = {"latency_ms", "service_ms", *(("input_tokens",) if api.counts_input else ())} - metrics
    return dict.fromkeys(names, _NOT_COUNTED if len(ended) else "no request that was due in the window ended well")


def why_absent(name: str, recording: LoadRecording, rows: Rows, api: ServedApi) -> str:
    """Why no request of a load has a value of a metric."""
    if not is_column(name) and name not in ("itl_ms", "chunk_gap_ms"):
        return "it is not a time of one request"
    ended = np.flatnonzero((recording.phase == MEASURE) & (rows.outcome == OK))
    if api.generates:
        return _why(name, rows, ended, api)
    return _missing(recording, rows, api, set()).get(name, f"{name} belongs to streams of tokens")


def _why(name: str, rows: Rows, ended: NDArray[np.int64], api: ServedApi) -> str:
    if not len(ended):
        return "no request that was due in the window ended well"
    if name in _NEED_STREAM and not rows.streamed[ended].any():
        return "answers were not streamed" if not api.streams else "the server did not stream its answers"
    if name == "input_tokens":
        return _NOT_COUNTED
    if name in _NEED_COUNT and (rows.output_tokens[ended] < 0).all():
        return f"tokens could not be counted: {_NOT_COUNTED}"
    if name in _NEED_STREAM and not (rows.first_ns[ended] > 0).any():
        return (
            "no answer carried a token: all of them were spent on reasoning that is not sent, or the answers are empty"
        )
    return "every answer came in one arrival"

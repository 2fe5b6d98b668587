"""From what clients saw and what answers said to samples, metrics, the reasons for what is missing, and facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.apis.contract import Api
from assay.run.load.http.recording import MEASURE, WARMUP, Recording
from assay.run.records import SamplePhase, SampleSet
from assay.run.targets.served import facts as told
from assay.run.targets.served.gaps import Gaps, chunk_gaps, samples, token_gaps
from assay.run.targets.served.goodput import Judged, judge
from assay.run.targets.served.requests import OK, column, is_column
from assay.run.targets.served.rows import Rows
from assay.run.targets.served.totals import costs, counted, ended_inside, window_totals
from assay.spec.benchmark import Definition
from assay.spec.target import Served

_OF_TEXT = (
    "ttft_ms", "first_answer_ms", "tpot_ms", "e2e_ms", "service_ms", "schedule_delay_ms",
    "input_tokens", "output_tokens", "user_tokens_per_s",
)  # fmt: skip
_OF_OTHERS = ("latency_ms", "service_ms", "schedule_delay_ms")
_NEED_STREAM = ("ttft_ms", "itl_ms", "chunk_gap_ms", "tpot_ms", "user_tokens_per_s")
_NEED_COUNT = ("itl_ms", "tpot_ms", "user_tokens_per_s", "output_tokens")
_NOT_COUNTED = "the server gave no usage, has no tokenizer endpoint, and target.tokenizer names none"
_PHASES: tuple[tuple[int, SamplePhase], ...] = ((WARMUP, "warmup"), (MEASURE, "measure"))


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Everything that a load gives, ready to be put into a result."""

    samples: tuple[SampleSet, ...]
    metrics: Mapping[str, float]
    absent: Mapping[str, str]
    facts: Mapping[str, JsonValue]
    judged: Judged
    """Which requests met the objective by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """The requests that were due in the window of one probe of a rate, each by itself."""

    rows: NDArray[np.int64]
    """Which rows of the recording."""
    due_ns: NDArray[np.int64]
    """When they were due, from the window's begin."""
    columns: Mapping[str, NDArray[np.float64]]
    """Metric → a value per request; NaN where it has none, such as everything of one that failed."""
    good: NDArray[np.bool_]
    """Which of them met every objective by themselves."""
    ended: NDArray[np.bool_]
    """Which of them ended well."""
    samples: Mapping[str, NDArray[np.float64]]
    """Metric → the values that its statistics are taken of: the columns without gaps, and all token gaps."""
    metrics: Mapping[str, float]


def figures(recording: Recording, rows: Rows, api: Api, definition: Definition) -> Figures:
    """Work out all figures of a load."""
    found = tuple(_samples(recording, rows, api))
    metrics, absent = window_totals(recording, rows, api)
    target = definition.target
    if isinstance(target, Served):
        cost, no_cost = costs(recording, rows, target.price)
        metrics |= cost
        absent |= no_cost
    judged = judge(recording, rows, definition.objective)
    _goodput(recording, rows, judged, metrics, absent, asked=bool(definition.objective))
    absent |= _missing(recording, rows, api, {one.metric for one in found if one.phase == "measure"})
    facts = told.gather(recording, rows, api, definition.load, metrics)
    facts["counted"] = counted(recording, rows, metrics)
    if definition.objective:
        facts["goodput"] = {"judged_by": list(judged.by), "ignored": dict(judged.ignored)}
    if isinstance(target, Served) and target.price is not None:
        facts["cost"] = {"currency": target.price.currency, "of": "requests that were due in the window and ended well"}
    return Figures(found, metrics, absent, facts, judged)


def probe_figures(recording: Recording, rows: Rows, api: Api, definition: Definition) -> Probe:
    """What a search for a rate needs of one probe: columns by request, and the window's numbers."""
    due = recording.measured()
    names = _OF_TEXT if api.generates else (*_OF_OTHERS, "e2e_ms")
    columns = {name: column(name, recording, rows)[due] for name in names}
    values = {name: one[np.isfinite(one)] for name, one in columns.items()}
    if api.generates:
        for name, gaps in (("itl_ms", token_gaps(recording, rows)), ("chunk_gap_ms", chunk_gaps(recording, rows))):
            values[name] = samples(gaps, recording.phase[gaps.row] == MEASURE)[1]
    judged = judge(recording, rows, definition.objective)
    metrics, _ = window_totals(recording, rows, api)
    _goodput(recording, rows, judged, metrics, {}, asked=True)
    return Probe(
        rows=due,
        due_ns=recording.due_ns[due] - recording.window[0],
        columns=columns,
        good=judged.good[due],
        ended=rows.outcome[due] == OK,
        samples=values,
        metrics=metrics,
    )


def _samples(recording: Recording, rows: Rows, api: Api) -> Iterator[SampleSet]:
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
    for name, gaps in (("itl_ms", token_gaps(recording, rows)), ("chunk_gap_ms", chunk_gaps(recording, rows))):
        yield from _gap_samples(name, gaps, recording, begins)


def _gap_samples(name: str, gaps: Gaps, recording: Recording, begins: Mapping[str, int]) -> Iterator[SampleSet]:
    for code, phase in _PHASES:
        at, values = samples(gaps, recording.phase[gaps.row] == code)
        if len(values):
            yield SampleSet(name, phase, at - begins[phase], values)


def _warmup_begin(recording: Recording) -> int:
    due = recording.due_ns[recording.phase == WARMUP]
    return int(due.min()) if len(due) else recording.window[0]


def _goodput(
    recording: Recording, rows: Rows, judged: Judged, metrics: dict[str, float], absent: dict[str, str], *, asked: bool
) -> None:
    length_s = (recording.window[1] - recording.window[0]) / 1e9
    if not asked:
        return
    if judged.absent or length_s <= 0:
        absent["goodput_per_s"] = judged.absent or "the measured window has no length"
    else:
        metrics["goodput_per_s"] = float(np.count_nonzero(judged.good & ended_inside(recording, rows))) / length_s


def _missing(recording: Recording, rows: Rows, api: Api, found: set[str]) -> dict[str, str]:
    """Why metrics of single requests have no sample."""
    ended = np.flatnonzero((recording.phase == MEASURE) & (rows.outcome == OK))
    if api.generates:
        names = {*_OF_TEXT, "itl_ms", "chunk_gap_ms"} - found - {"first_answer_ms", "schedule_delay_ms"}
        return {name: _why(name, rows, ended, api) for name in names}
    names = {"latency_ms", "service_ms", *(("input_tokens",) if api.counts_input else ())} - found
    return dict.fromkeys(names, _NOT_COUNTED if len(ended) else "no request that was due in the window ended well")


def why_absent(name: str, recording: Recording, rows: Rows, api: Api) -> str:
    """Why no request of a load has a value of a metric."""
    if not is_column(name) and name not in ("itl_ms", "chunk_gap_ms"):
        return "it is not a time of one request"
    ended = np.flatnonzero((recording.phase == MEASURE) & (rows.outcome == OK))
    if api.generates:
        return _why(name, rows, ended, api)
    return _missing(recording, rows, api, set()).get(name, f"{name} belongs to streams of tokens")


def _why(name: str, rows: Rows, ended: NDArray[np.int64], api: Api) -> str:
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

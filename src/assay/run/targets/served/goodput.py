"""Goodput: the requests that met every objective by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.metrics import METRICS
from assay.run.load.http.recording import Recording
from assay.run.targets.served.gaps import chunk_gaps, statistic_by_row, token_gaps
from assay.run.targets.served.requests import OK, column, is_column
from assay.run.targets.served.rows import Rows

_BY_GAP = ("itl_ms", "chunk_gap_ms")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Which requests were good, and by which of the objectives."""

    good: NDArray[np.bool_]
    """For each request of the recording."""
    by: tuple[str, ...]
    """Objectives that a request can meet by itself."""
    ignored: Mapping[str, JsonValue] = field(default_factory=dict)
    """Objective → why it says nothing about one request."""
    absent: str = ""
    """Why nothing could be judged."""


def judge(recording: Recording, rows: Rows, objective: Mapping[str, float]) -> Judged:
    """Hold each request against the limits; one that failed or did not end is not good.

    A request that has no value, such as the time per token of an answer of one token, breaks no limit; but where no
    request at all has one, nothing can be said.
    """
    good = rows.outcome == OK
    if not objective:
        return Judged(good, (), absent="the file has no objective that a request could meet")
    by: list[str] = []
    ignored: dict[str, JsonValue] = {}
    for key, limit in objective.items():
        metric, _, statistic = key.rpartition(".")
        reason = _not_of_one_request(metric, statistic)
        if reason:
            ignored[key] = reason
            continue
        values = _values(metric, statistic, recording, rows)
        ended = rows.outcome == OK
        if ended.any() and np.isnan(values[ended]).all() and not _may_lack(metric, rows, ended):
            return Judged(good & False, tuple(by), ignored, f"no request has {metric}, so {key} cannot be judged")
        by.append(key)
        worse = values > limit if METRICS[metric].better == "lower" else values < limit
        good = good & ~worse
        if metric == "first_answer_ms":
            good = good & (rows.answer_ns > 0)
    if not by:
        return Judged(good, (), ignored, "no objective is about single requests")
    return Judged(good, tuple(by), ignored)


def _not_of_one_request(metric: str, statistic: str) -> str:
    if not is_column(metric) and metric not in _BY_GAP:
        return "not a time of one request"
    if METRICS[metric].better is None:
        return "has no direction"
    if statistic == "std" and metric not in _BY_GAP:
        return "one request has no spread"
    return ""


def _values(metric: str, statistic: str, recording: Recording, rows: Rows) -> NDArray[np.float64]:
    if metric == "itl_ms":
        return statistic_by_row(token_gaps(recording, rows), statistic, len(recording))
    if metric == "chunk_gap_ms":
        return statistic_by_row(chunk_gaps(recording, rows), statistic, len(recording))
    if metric == "first_answer_ms":  # without reasoning, the first token is the first of the answer
        known = (rows.outcome == OK) & (rows.answer_ns > 0)
        return np.where(known, (rows.answer_ns - recording.due_ns) / 1e6, np.nan)
    return column(metric, recording, rows)


def _may_lack(metric: str, rows: Rows, ended: NDArray[np.bool_]) -> bool:
    """Whether a whole load may have no value without anything being wrong: answers of one arrival have no gaps."""
    if metric not in (*_BY_GAP, "tpot_ms", "user_tokens_per_s"):
        return False
    return bool((rows.streamed[ended] & (rows.output_tokens[ended] >= 0)).all())

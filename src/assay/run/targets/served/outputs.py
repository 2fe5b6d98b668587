"""The answers themselves, one row each, for who scores them now or asks later what the model said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import JsonValue

from assay.run.apis.contract import ServedApi
from assay.run.apis.readers import meaning_of, server_words
from assay.run.load.http.recording import MEASURE, OUTCOMES, LoadRecording
from assay.run.targets.served.request_metrics import OK, UNFINISHED, column
from assay.run.targets.served.rows import Rows
from assay.run.workloads.records import Item

# Answers whose memory may be held at once.
_LET_GO_EVERY = 4096
_REQUEST_IDS = ("x-request-id", "request-id")


def outputs(
    recording: LoadRecording, rows: Rows, api: ServedApi, items: Sequence[Item], *, warmup: bool = False
) -> Iterator[dict[str, JsonValue]]:
    """One row per request that was due in the measured window, by when it was due.

    Answers are read again from the recording, so that they never lie in memory all at once.
    """
    ttft, e2e = column("ttft_ms", recording, rows), column("e2e_ms", recording, rows)
    for place, row in enumerate(np.argsort(recording.due_ns, kind="stable").tolist()):
        if place % _LET_GO_EVERY == 0:
            recording.let_go(len(recording))
        if recording.phase[row] != MEASURE and not warmup:
            continue
        item = items[int(recording.session[row]) % len(items)]
        yield {
            "item": item.id,
            "session": int(recording.session[row]),
            "turn": int(recording.turn[row]),
            **_said(recording, rows, api, row),
            "input_tokens": _known(rows.input_tokens[row]),
            "output_tokens": _known(rows.output_tokens[row]),
            "ttft_ms": _number(ttft[row]),
            "e2e_ms": _number(e2e[row]),
            "outcome": OUTCOMES[rows.outcome[row]],
        }


def _said(recording: LoadRecording, rows: Rows, api: ServedApi, row: int) -> dict[str, JsonValue]:
    outcome = OUTCOMES[rows.outcome[row]]
    body = bytes(recording.body_of(row))
    known = next((found for name in _REQUEST_IDS if (found := recording.header_of(row, name))), None)
    if outcome == "status" or not body:
        error = server_words(body) if outcome == "status" else recording.header_of(row, "problem")
        no_error = rows.outcome[row] == OK
        return _row("", "", "", None, known, None if no_error else error or meaning_of(outcome))
    answer = api.read(body)
    error = None
    if outcome == "content" and answer.fault is not None:
        error = answer.fault.words
    elif rows.outcome[row] not in (OK, UNFINISHED):
        error = recording.header_of(row, "problem") or meaning_of(outcome)
    return _row(answer.text, answer.reasoning, answer.tools, answer.finish, known or answer.id, error)


def _row(
    text: str, reasoning: str, tools: str, finish: str | None, request_id: str | None, error: str | None
) -> dict[str, JsonValue]:
    said: dict[str, JsonValue] = {"text": text}
    if reasoning:
        said["reasoning"] = reasoning
    if tools:
        said["tools"] = tools
    return {**said, "finish_reason": finish, "request_id": request_id, "error": error}


def _known(count: int) -> int | None:
    return int(count) if count >= 0 else None


def _number(value: float) -> float | None:
    return None if value != value else round(float(value), 6)

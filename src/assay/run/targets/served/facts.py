"""What a load was and how it went, beside its numbers: errors in the server's words, lengths, who counted tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.apis.answers import FAULTS
from assay.run.apis.contract import ServedApi
from assay.run.apis.readers import meaning_of, server_words
from assay.run.load.http.recording import (
    CODE,
    MEASURE,
    OUTCOMES,
    REQUESTS,
    WARMUP,
    LoadRecording,
    requests_of,
    write_requests,
)
from assay.run.load.timing import ClockPair
from assay.run.scoring import Output, as_asked
from assay.run.targets.served.counting import SOURCES, disagreement, input_disagreement
from assay.run.targets.served.request_metrics import OK, SKIPPED, UNFINISHED, GoodRequests, column
from assay.run.targets.served.rows import Rows
from assay.run.workloads import Item
from assay.spec.benchmark import Definition
from assay.spec.workload import Load

Facts = dict[str, JsonValue]
_STATUS, _CONTENT = CODE["status"], CODE["content"]
# Below this many tokens per chunk a server sends its tokens one by one, give or take some that show nothing.
_BUNDLED = 1.1
_SHARE_OF_STOPS = 0.5


def gather(recording: LoadRecording, rows: Rows, api: ServedApi, load: Load, metrics: Mapping[str, float]) -> Facts:
    facts: Facts = {
        "requests": _requests(recording, rows),
        "errors": _errors(recording, rows, MEASURE),
        "statuses": _statuses(recording),
        "load": _load(recording, load, metrics),
    }
    if before := _errors(recording, rows, WARMUP):
        facts["warmup_errors"] = before
    if api.generates:
        facts |= _finishes(recording, rows)
        facts["lengths"] = {"input": _lengths(recording, rows, "input"), "output": _lengths(recording, rows, "output")}
        facts["tokens"] = _tokens(recording, rows)
        if reasoning := _reasoning(recording, rows):
            facts["reasoning"] = reasoning
    elif api.counts_input:
        facts["lengths"] = {"input": _lengths(recording, rows, "input")}
        facts["tokens"] = {"input": {"source": _sources(rows.input_source[_ended(recording, rows)])}}
        facts["vector_dims"] = list[JsonValue](sorted(rows.dims))
    if len(np.unique(recording.stage)) > 1:
        facts["stages"] = _stages(recording, rows)
    return facts


def _ended(recording: LoadRecording, rows: Rows) -> NDArray[np.int64]:
    return np.flatnonzero((recording.phase == MEASURE) & (rows.outcome == OK))


def _requests(recording: LoadRecording, rows: Rows) -> Facts:
    codes = rows.outcome[recording.measured()]
    counts = {name: int(np.count_nonzero(codes == CODE[name])) for name in ("ok", "unfinished", "skipped")}
    facts: Facts = {"due": len(codes), **counts, "failed": len(codes) - sum(counts.values())}
    facts["warmup"] = int(np.count_nonzero(recording.phase == WARMUP))
    facts["new_connections"] = int(np.count_nonzero(recording.fresh))
    if counts["unfinished"]:
        facts["unfinished_are"] = (
            "requests still open when the run ended: they count as due and not as good; a first token that had come "
            "by then is in ttft_ms, nothing else of them is"
        )
    return facts


def _errors(recording: LoadRecording, rows: Rows, phase: int) -> Facts:
    """Kind → count and what the first one said."""
    bad = np.flatnonzero(
        (recording.phase == phase) & (rows.outcome != OK) & (rows.outcome != UNFINISHED) & (rows.outcome != SKIPPED)
    )
    # One number per kind: the outcome, with its status or its fault.
    detail = np.where(rows.outcome[bad] == _STATUS, recording.status[bad], 0)
    detail = np.where(rows.outcome[bad] == _CONTENT, rows.fault[bad], detail)
    kinds, first, counts = np.unique(
        rows.outcome[bad].astype(np.int64) * 10_000 + detail, return_index=True, return_counts=True
    )
    failures = sorted(zip(counts.tolist(), bad[first].tolist(), strict=True), reverse=True) if len(kinds) else []
    return {
        _kind(recording, rows, row): {"count": count, "first": _words(recording, rows, row)} for count, row in failures
    }


def _kind(recording: LoadRecording, rows: Rows, row: int) -> str:
    outcome = OUTCOMES[rows.outcome[row]]
    if outcome == "status":
        return f"status {recording.status[row]}"
    return f"content: {FAULTS[rows.fault[row]]}" if outcome == "content" else outcome


def _words(recording: LoadRecording, rows: Rows, row: int) -> str:
    outcome = OUTCOMES[rows.outcome[row]]
    if outcome == "status":
        return server_words(bytes(recording.body_of(row)))
    if outcome == "content":
        return rows.words.get((int(recording.phase[row]), FAULTS[rows.fault[row]]), "")
    return recording.header_of(row, "problem") or meaning_of(outcome)


def _statuses(recording: LoadRecording) -> Facts:
    values, counts = np.unique(recording.status[recording.measured()], return_counts=True)
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    return {str(status): count for status, count in pairs if status}


def _load(recording: LoadRecording, load: Load, metrics: Mapping[str, float]) -> Facts:
    facts: Facts = {
        "offered_per_s": metrics.get("offered_per_s"),
        "delivered_per_s": metrics.get("throughput_per_s"),
        "concurrency": metrics.get("concurrency"),
        "window_s": (recording.window[1] - recording.window[0]) / 1e9,
        "clients": len(recording.clients),
        "stopped": recording.stopped,
    }
    if isinstance(load.rate, float):
        facts["asked_per_s"] = load.rate
    elif load.rate is None and not load.trace and not load.stages:
        facts["asked_concurrency"] = load.concurrency or 1
    return facts


def _finishes(recording: LoadRecording, rows: Rows) -> Facts:
    codes = rows.finish[_ended(recording, rows)]
    names = (*rows.finish_names, "none given")
    counts = {
        name: int(np.count_nonzero(codes == (code if code < len(names) - 1 else -1))) for code, name in enumerate(names)
    }
    facts: Facts = {"finish_reasons": {name: count for name, count in counts.items() if count}}
    if len(codes) and "length" in counts:
        share = counts["length"] / len(codes)
        facts["length_stops"] = share
        asked = rows.asked_output[_ended(recording, rows)]
        if share > _SHARE_OF_STOPS and (asked < 0).all():
            facts["length_stops_mean"] = "most answers were cut off by the server's own limit; set output_tokens"
    return facts


def _lengths(recording: LoadRecording, rows: Rows, side: str) -> Facts:
    ended = _ended(recording, rows)
    asked, counted = (
        (rows.asked_input[ended], rows.input_tokens[ended])
        if side == "input"
        else (rows.asked_output[ended], rows.output_tokens[ended])
    )
    both = (asked >= 0) & (counted >= 0)
    facts: Facts = {"asked": _range(asked[asked >= 0]), "counted": _range(counted[counted >= 0])}
    if both.any():
        off = counted[both] - asked[both]
        facts["as_asked"] = float(np.mean(off == 0))
        facts["difference"] = _range(off)
    return facts


def _range(values: NDArray[np.int32]) -> Facts | None:
    if not len(values):
        return None
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "min": int(values.min()),
        "max": int(values.max()),
    }


def _sources(codes: NDArray[np.int8]) -> JsonValue:
    """Who counted: one name, or how many requests each counted."""
    values, counts = np.unique(codes, return_counts=True)
    if len(values) == 1:
        return SOURCES[values[0]]
    return {SOURCES[value]: count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def _tokens(recording: LoadRecording, rows: Rows) -> Facts:
    """Who counted tokens, whether chunks are tokens here, and whether two counts disagree."""
    ended = _ended(recording, rows)
    facts: Facts = {
        "input": {"source": _sources(rows.input_source[ended])},
        "output": {"source": _sources(rows.output_source[ended])},
    }
    streamed = ended[rows.streamed[ended] & (rows.output_tokens[ended] >= 0) & (rows.chunks[ended] > 0)]
    if len(streamed):
        shown = rows.output_tokens[streamed] - np.maximum(rows.hidden_tokens[streamed], 0)
        mean = float(shown.sum(dtype=np.int64)) / float(rows.chunks[streamed].sum(dtype=np.int64))
        bundled = mean > _BUNDLED
        facts["tokens_per_chunk"] = {"mean": mean, "max": rows.tally.largest_chunk}
        facts["first_chunk_tokens"] = float(np.median(rows.first_chunk[streamed]))
        facts["first_arrival_tokens"] = float(np.median(rows.first_tokens[streamed]))
        facts["bundled"] = bundled
        if bundled:
            facts["itl_ms_is"] = _itl_is(rows)
            facts["chunks_split"] = {"by_tokenizer": rows.tally.by_tokenizer, "evenly": rows.tally.evenly}
    if wrong := disagreement(rows.tally.checked):
        facts["tokenizer_disagrees"] = wrong
    if wrong := input_disagreement(rows.tally.checked_inputs):
        facts["tokenizer_disagrees_on_prompts"] = wrong
    if (cached := rows.cached_tokens[ended]).max(initial=-1) >= 0:
        facts["cached_input_tokens"] = int(np.maximum(cached, 0).sum(dtype=np.int64))
    return facts


def _itl_is(rows: Rows) -> str:
    by_tokenizer, even = rows.tally.by_tokenizer, rows.tally.evenly
    inside = "averaged inside chunks: the server sends several tokens together"
    if not even:
        return f"{inside}; a tokenizer counted those of each chunk"
    if not by_tokenizer:
        return f"{inside}, and without a tokenizer they were spread evenly over the chunks of an answer"
    return (
        f"{inside}; a tokenizer counted the tokens of the chunks of {by_tokenizer} answers, "
        f"those of {even} were spread evenly"
    )


def _reasoning(recording: LoadRecording, rows: Rows) -> Facts:
    ended = _ended(recording, rows)
    hidden = np.maximum(rows.hidden_tokens[ended], 0)
    sent = rows.reasoned[ended]
    facts: Facts = {}
    if sent.any():
        facts["answers_with_reasoning"] = int(np.count_nonzero(sent))
        facts["answers_of_reasoning_alone"] = int(np.count_nonzero(sent & (rows.answer_ns[ended] == 0)))
    if hidden.any():
        facts["hidden_tokens"] = int(hidden.sum(dtype=np.int64))
        facts["answers_with_hidden_tokens"] = int(np.count_nonzero(hidden))
        facts["hidden_tokens_are"] = (
            "reasoning that was counted and paid for but never sent: part of output_tokens, not of itl_ms, tpot_ms "
            "and tokens per second"
        )
    return facts


def _stages(recording: LoadRecording, rows: Rows) -> list[JsonValue]:
    stages: list[JsonValue] = []
    for stage in np.unique(recording.stage[recording.measured()]).tolist():
        mine = np.flatnonzero((recording.stage == stage) & (recording.phase == MEASURE))
        ended = mine[rows.outcome[mine] == OK]
        facts: Facts = {"stage": stage, "due": len(mine), "ok": len(ended)}
        facts["span_s"] = float(recording.due_ns[mine].max() - recording.due_ns[mine].min()) / 1e9
        for name, end in (("ttft_ms", rows.first_ns), ("e2e_ms", recording.end_ns)):
            there = ended[end[ended] > 0]
            if len(there):
                took = (end[there] - recording.due_ns[there]) / 1e6
                facts[name] = {"p50": float(np.quantile(took, 0.5)), "p99": float(np.quantile(took, 0.99))}
        stages.append(facts)
    return stages


# Answers that may be in memory at the same time.
_LET_GO_EVERY = 4096
_REQUEST_IDS = ("x-request-id", "request-id")


def outputs(recording: LoadRecording, rows: Rows, api: ServedApi, items: Sequence[Item]) -> Iterator[Output]:
    """The answer to each request that was due in the measured window, by when it was due.

    Answers are read again from the recording, so that they are never all in memory at the same time.
    """
    ttft, e2e = column("ttft_ms", recording, rows), column("e2e_ms", recording, rows)
    for place, row in enumerate(np.argsort(recording.due_ns, kind="stable").tolist()):
        if place % _LET_GO_EVERY == 0:
            recording.let_go(len(recording))
        if recording.phase[row] != MEASURE:
            continue
        session, turn = int(recording.session[row]), int(recording.turn[row])
        item = items[session % len(items)]
        text, said = _said(recording, rows, api, row)
        numbers: Facts = {
            "input_tokens": _known(rows.input_tokens[row]),
            "output_tokens": _known(rows.output_tokens[row]),
            "ttft_ms": _number(ttft[row]),
            "e2e_ms": _number(e2e[row]),
        }
        yield Output(
            item=item.id,
            session=session,
            turn=turn,
            text=text,
            reference=item.reference if turn == len(item.turns) - 1 else None,
            data=dict(item.data),
            outcome=OUTCOMES[rows.outcome[row]],
            more={**said, **numbers, **as_asked(item.turns[turn])},
        )


def _said(recording: LoadRecording, rows: Rows, api: ServedApi, row: int) -> tuple[str, Facts]:
    outcome = OUTCOMES[rows.outcome[row]]
    body = bytes(recording.body_of(row))
    request_id = next((header for name in _REQUEST_IDS if (header := recording.header_of(row, name))), None)
    if outcome == "status" or not body:
        error = server_words(body) if outcome == "status" else recording.header_of(row, "problem")
        error = None if rows.outcome[row] == OK else error or meaning_of(outcome)
        return "", {"finish_reason": None, "request_id": request_id, "error": error}
    answer = api.draft(body)
    error = None
    if outcome == "content" and answer.fault is not None:
        error = answer.fault.words
    elif rows.outcome[row] not in (OK, UNFINISHED):
        error = recording.header_of(row, "problem") or meaning_of(outcome)
    also: Facts = {name: text for name, text in (("reasoning", answer.reasoning), ("tools", answer.tools)) if text}
    return answer.text, {**also, "finish_reason": answer.finish, "request_id": request_id or answer.id, "error": error}


def _known(count: int) -> int | None:
    return int(count) if count >= 0 else None


def _number(value: float) -> float | None:
    return None if value != value else round(float(value), 6)


def clock_facts(recording: LoadRecording, paired: ClockPair) -> dict[str, JsonValue]:
    """When the load was, on the clock of the day."""
    shift = paired.epoch_ns - paired.loop_ns
    before = recording.due_ns[recording.phase == WARMUP]
    return {
        "load_begin_epoch_ns": int(before.min(initial=recording.window[0])) + shift,
        "window_begin_epoch_ns": recording.window[0] + shift,
        "window_end_epoch_ns": recording.window[1] + shift,
        "offset": "the clock of this machine, taken as it is: how far it is from that of other machines is not known",
    }


def share_facts(definition: Definition) -> dict[str, JsonValue]:
    load = definition.load
    return {
        "host": load.host or 0,
        "hosts": load.hosts,
        "means": "this machine's share alone; rates and concurrencies that were asked for are those of all machines",
    }


def keep_requests(
    folder: Path, recording: LoadRecording, rows: Rows, judged: GoodRequests, api: ServedApi
) -> tuple[str, Path]:
    """Write every request into a file, from which the window can be counted again; return its name and path."""
    ok = rows.outcome == OK
    counted = api.generates and not np.any(ok & (rows.output_tokens < 0))
    requests = requests_of(
        recording,
        rows.outcome,
        input_tokens=rows.input_tokens,
        output_tokens=rows.output_tokens,
        good=None if judged.absent else judged.good,
        piece_tokens=rows.piece_tokens if counted else None,
    )
    path = folder / REQUESTS
    write_requests(path, requests)
    return REQUESTS, path

"""The first request of a run, by itself: how long a cold answer takes, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from assay.errors import MeasureError
from assay.run.apis import ServedApi
from assay.run.apis.readers import meaning_of, server_words
from assay.run.contract import Order
from assay.run.endpoint import ServedEndpoint
from assay.run.load.http.driver import HttpLoad, Repeat
from assay.run.load.http.loops import drive
from assay.run.load.http.recording import OUTCOMES, LoadRecording
from assay.run.load.shape import ClosedShape, RateLevel
from assay.run.services import log_tail
from assay.run.targets.served.rows import Rows, read_rows
from assay.run.targets.served.supply import ApiSupply

TRIES = 3
_ONE_USER = ClosedShape((RateLevel(math.inf, 1, 1),))
_OUR_FAULT, _SERVER_FAULT = 400, 500
_TOO_MANY = 429
_MOST_WAIT_S = 30.0
_UNREACHED = frozenset({"refused", "unresolved", "tls", "proxy", "timeout"})


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """How the first request went."""

    e2e_ms: float
    ttft_ms: float | None
    token_ns: int
    """When its first token came, 0 where that cannot be told."""


def ask_once(order: Order, there: ServedEndpoint, supply: ApiSupply, api: ServedApi, session: int) -> FirstRequest:
    """Ask once and wait for the answer; try again where a failure may be chance.

    Args:
        session: which item; the last one, so that the load does not begin with what a cache has just seen.

    Raises:
        MeasureError: if no answer came, with the server's own words.
    """
    wire = supply.first(session)
    for attempt in range(TRIES):
        load = HttpLoad(
            there.origin,
            _ONE_USER,
            Path(order.scratch),
            requests=1,
            timeout_s=min(there.target.timeout, order.job.definition.measure.timeout / TRIES),
        )
        recording = drive(load, Repeat((wire,)))
        rows = read_rows(recording, api, ())
        if OUTCOMES[rows.outcome[0]] == "ok":
            token_ns = int(rows.first_ns[0]) or int(recording.first_ns[0])
            ttft_ms = (token_ns - int(recording.due_ns[0])) / 1e6 if rows.streamed[0] else None
            return FirstRequest((int(recording.end_ns[0]) - int(recording.due_ns[0])) / 1e6, ttft_ms, token_ns)
        if attempt + 1 == TRIES or _is_certain(recording, rows):
            raise _refused(there, recording, rows)
    raise AssertionError("unreachable")


def refuse_unreachable(order: Order, there: ServedEndpoint, api: ServedApi) -> None:
    """Tell a server that is not there from one that lacks something; any answer at all shows that it is there.

    Raises:
        MeasureError: if no connection could be made, with the reason.
    """
    wire = there.origin.request("GET", there.origin.path or "/", dict(there.headers), b"")
    load = HttpLoad(
        there.origin, _ONE_USER, Path(order.scratch), requests=1, timeout_s=min(there.target.timeout, _MOST_WAIT_S)
    )
    recording = drive(load, Repeat((wire,)))
    if OUTCOMES[recording.outcome[0]] in _UNREACHED:
        raise _refused(there, recording, read_rows(recording, api, ()))


def _is_certain(recording: LoadRecording, rows: Rows) -> bool:
    """Whether asking again would only get the same answer: the request itself is refused."""
    status = int(recording.status[0])
    if OUTCOMES[rows.outcome[0]] in ("timeout", "tls", "redirect"):
        return True
    return OUTCOMES[rows.outcome[0]] == "status" and _OUR_FAULT <= status < _SERVER_FAULT and status != _TOO_MANY


def _refused(there: ServedEndpoint, recording: LoadRecording, rows: Rows) -> MeasureError:
    outcome = OUTCOMES[rows.outcome[0]]
    status = int(recording.status[0])
    body = bytes(recording.body_of(0))
    words = server_words(body) if outcome == "status" else recording.header_of(0, "problem") or ""
    words = words or next(iter(rows.words.values()), "")
    what = f"it answered {status}" if outcome == "status" else meaning_of(outcome)
    tail = log_tail(there.service)[-3:] if there.service is not None else ()
    logged = f"; the service wrote: {' | '.join(tail)}" if tail else ""
    return MeasureError(
        f"the first request to {there.origin.authority} failed: {what}{f': {words}' if words else ''}{logged}",
        code=f"endpoint-{outcome}",
        at=there.origin.authority,
        try_=_advice(outcome, status),
    )


def _advice(outcome: str, status: int) -> str:
    if outcome == "refused":
        return "is the server running, and is the port right?"
    if outcome == "tls":
        return "give target.tls.ca the certificate to trust, or target.tls.verify: false for a server of your own"
    if status in (401, 403):
        return 'send the key: target.headers: {Authorization: "Bearer ${env:MY_KEY}"}'
    if status == 404:
        return "check target.model and the path of target.endpoint"
    if status == 400:
        return "the server's words say what it does not take; target.options sets fields of the request"
    if outcome == "content":
        return "does target.api name the protocol that this server speaks?"
    return "ask the server by hand, with curl; raise target.timeout where it is only slow"

"""What a machine that drives only its share of a load leaves, so that the shares can be put together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.run.apis.contract import ServedApi
from assay.run.load.http.recording import WARMUP, LoadRecording
from assay.run.load.requests import REQUESTS, requests_of, write_requests
from assay.run.load.timing import ClockPair
from assay.run.targets.served.request_metrics import OK, GoodRequests
from assay.run.targets.served.rows import Rows
from assay.spec.benchmark import Definition


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

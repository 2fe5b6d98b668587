"""Short ways to drive a load in tests."""

import math
from pathlib import Path

from assay.run.load.http.driver import HttpLoad, LoadCallbacks, LoadWarmup, Repeat
from assay.run.load.http.origin import origin_of
from assay.run.load.http.recording import OUTCOMES, LoadRecording
from assay.run.load.http.session import drive_clients
from assay.run.load.shape import ClosedShape, OpenShape, RateLevel


def users(number: float, think_s: float = 0.0) -> ClosedShape:
    return ClosedShape((RateLevel(math.inf, number, number),), think_s)


def rate(per_s: float, process="constant") -> OpenShape:
    return OpenShape((RateLevel(math.inf, per_s, per_s),), process)


def drive(
    url: str, folder: Path, shape=None, *, supply=None, asks: LoadCallbacks | None = None, origin=None, **settings
) -> LoadRecording:
    """Drive a load of POST requests and return what was recorded."""
    where = origin or origin_of(url)
    wire = where.request("POST", f"{where.path}/x", {"Content-Type": "application/json"}, b'{"a": 1}')
    folder.mkdir(parents=True, exist_ok=True)
    settings.setdefault("timeout_s", 3.0)
    settings.setdefault("warmup", LoadWarmup())
    load = HttpLoad(where, shape or users(1), folder, **settings)
    return drive_clients(load, supply or Repeat((wire,)), asks)


def outcomes(recording: LoadRecording) -> dict[str, int]:
    """How often requests ended in each way."""
    names = [OUTCOMES[code] for code in recording.outcome]
    return {name: names.count(name) for name in dict.fromkeys(names)}

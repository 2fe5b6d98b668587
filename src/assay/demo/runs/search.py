"""A search for the highest rate that a machine can carry: one probe after another, judged by the objective."""

from __future__ import annotations

import numpy as np
from pydantic import JsonValue

from assay.demo.runs.llm import Requests, capacity_per_s, facts_of, requests_at, samples_of, totals_of
from assay.demo.runs.record import Drawn, outcomes
from assay.demo.scene import Scene
from assay.run.records import RunOutcome

_PROBE_S = 20.0
_STEPS = (0.06, 0.12, 0.25, 0.5, 0.9, 0.75, 0.82, 0.86, 0.84)
_SAFE = 0.83
"""Share of the full rate at which the objective is still met."""


def search_runs(scene: Scene) -> list[RunOutcome]:
    """The runs of a job with `rate: search`."""
    return outcomes(scene, [_run(scene) for _ in range(scene.runs)])


def _run(scene: Scene) -> Drawn:
    full = capacity_per_s(scene) * scene.between_runs()
    probes: list[JsonValue] = []
    best: tuple[float, Requests] | None = None
    lowest_missed = full
    for step in _STEPS:
        rate = round(step * full, 3)
        sent = requests_at(scene, rate, _PROBE_S)
        judged = _judged(sent)
        meets = step <= _SAFE + 0.005 * float(scene.draw.normal())
        sure: bool | None = meets if abs(step - _SAFE) > 0.015 else None
        probes.append(
            {"rate": rate, "duration_s": _PROBE_S, "meets": sure, "why": _why(judged, sure), "judged": judged}
        )
        if sure and (best is None or rate > best[0]):
            best = (rate, sent)
        if sure is False:
            lowest_missed = min(lowest_missed, rate)
    capacity, sent = best or (round(_STEPS[0] * full, 3), requests_at(scene, _STEPS[0] * full, _PROBE_S))
    totals = totals_of(scene, sent, _PROBE_S)
    objective: dict[str, JsonValue] = dict(scene.job.definition.objective)
    search: dict[str, JsonValue] = {
        "objective": objective,
        "probes": probes,
        "capacity": capacity,
        "low": capacity,
        "high": lowest_missed,
        "reason": f"{capacity:.3g} requests/s meet the objective, and {lowest_missed:.3g} do not",
    }
    phases = {
        "prepare": 1.1,
        "load": 33.0,
        "first": 0.4,
        "warmup": 5.0,
        "measure": _PROBE_S * len(_STEPS),
        "score": 1.0,
        "cleanup": 1.0,
    }
    metrics = {**totals, "capacity_per_s": capacity, "start_to_ready_s": 47.0 * scene.between_runs()}
    facts: dict[str, JsonValue] = {**facts_of(sent, _PROBE_S, totals), "search": search}
    samples = samples_of(scene, sent, _PROBE_S)
    return Drawn(phases, metrics, samples, facts, work=0.9, rss_mb=9400.0)


def _judged(sent: Requests) -> dict[str, JsonValue]:
    return {"ttft_ms.p99": float(np.quantile(sent.ttft_ms, 0.99)), "itl_ms.p99": float(np.quantile(sent.gaps_ms, 0.99))}


def _why(judged: dict[str, JsonValue], sure: bool | None) -> str:
    word = {True: "is kept", False: "is missed", None: "cannot be told from so few samples"}[sure]
    return f"ttft_ms.p99 is {judged['ttft_ms.p99']:.0f} ms: the objective {word}"

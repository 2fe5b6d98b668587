"""Results of the past with known truth: one per night, with whatever was around it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from assay.analyse.records import Check, MultiRunJobResult
from assay.analyse.summary import summarise
from assay.plan.job import content_hash
from assay.run.records import Failure, SingleRunResult

NIGHT_S = 86_400.0
FIRST = 1_700_000_000.0

Around = dict[str, Any]


def result(value: float | None, number: int, **around: Any) -> MultiRunJobResult:
    """A result as `judge` makes it; `around` replaces what else is usual here.

    Keys: host, machine_id, driver, kernel, packages, commit, model, control (share by which it is slower), throttled,
    doubts, measure, objective, metric, better, cpu, point, digest, spread, campaign.
    """
    metric = around.get("metric", "latency_ms")
    failed = value is None
    definition = {"target": {"model": "m.onnx"}, **{k: around[k] for k in ("measure", "objective") if around.get(k)}}
    definition |= around.get("definition", {})
    rng = random.Random(number)
    values = [] if value is None else [value * (1 + around.get("spread", 0.002) * rng.gauss(0, 1)) for _ in range(3)]
    runs = tuple(
        SingleRunResult(run, run == 0, "", "", 1.0, facts={"model": {"sha256": around.get("model", "m" * 64)}})
        for run in range(3)
    )
    digest = around.get("digest") or content_hash([definition, around.get("model"), around.get("files")])
    stats = (
        summarise(metric, "ms", around.get("better", "lower"), {run: np.array([v]) for run, v in enumerate(values)})
        if values
        else None
    )
    throttled = around.get("throttled", False)
    checks = [Check("clocks not throttled", not throttled, "")]
    checks += [Check(name, False, "") for name in around.get("doubts", ())]
    campaign = around.get("campaign", f"c{number}")
    return MultiRunJobResult(
        job=f"{campaign}-job-0",
        digest=digest,
        index=0,
        point=around.get("point", {}),
        state="failed" if failed else "done",
        verdict="invalid" if failed else around.get("verdict", "valid"),
        checks=() if failed else tuple(checks),
        gates=(),
        metrics={} if stats is None else {metric: stats},
        runs=runs,
        total_runs=3,
        successful_runs=0 if failed else 3,
        failed_runs=3 if failed else 0,
        cold_start={},
        environment=environment(number, around),
        definition=definition,
        error=Failure("crashed", "the process died") if failed else None,
    )


def environment(number: int, around: Around) -> dict[str, Any]:
    """The environment record of a night."""
    noise = random.Random(1000 + number).gauss(0, 0.004)
    slower = (1 + around.get("control", 0.0)) * (1 + noise)
    timed = {"fitness": {"control": {"version": 1, "integer_ms": 128.9 * slower, "memory_ms": 177.7 * slower}}}
    host = around.get("host", "bench-1")
    return {
        "machine": {
            "name": host,
            "id": around.get("machine_id", f"id of {host}"),
            "cpu": around.get("cpu", "EPYC 7763"),
            "cores": 8,
            "memory_bytes": 33_600_000_000,
            "os": "Linux",
            "os_version": "Debian 12",
            "kernel": around.get("kernel", "6.1.0"),
            "driver": around.get("driver", "550.54"),
        },
        "python": "3.11.2",
        "packages": {"assay": around.get("assay", "0.1.0"), "numpy": "2.1.3", **around.get("packages", {})},
        "git": {"commit": around.get("commit", "a" * 40), "changed": False},
        "before": timed,
        "after": timed,
    }


def nights(
    count: int, step_at: int, size: float, around: Callable[[int], Around], *, spread: float = 0.01, seed: int = 1
) -> Iterator[tuple[MultiRunJobResult, float]]:
    """Results of so many nights whose level moves by `size` at one of them, with their times."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        level = 10.0 * (1 + size if number >= step_at else 1.0)
        yield result(level * (1 + spread * rng.standard_normal()), number, **around(number)), FIRST + number * NIGHT_S

"""A store with results whose truth is known, made without measuring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.unit.store.setups import FakeClock

from assay.analyse.judge import judge
from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.plan.plan import make_plan
from assay.report.export import result_json
from assay.report.result import read_campaign
from assay.run.records import DeviceProof, RunOutcome, SampleSet, SingleRunResult, Window
from assay.spec.load import load
from assay.store.store import Store

MACHINE = {"name": "bench-1", "cpu": "EPYC 7763", "cores": 8, "os": "Linux"}
RUNS = (1.0, 1.001, 0.999, 1.0005)


class Kept:
    """Campaigns of one matrix over the batch, each job as fast as it is told."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.clock = FakeClock()

    def campaign(
        self,
        levels: Mapping[int, float],
        *,
        benchmark: str = "demo",
        labels: Mapping[str, str] | None = None,
        commit: str = "",
        change: Callable[[MultiRunJobResult], MultiRunJobResult] = lambda job: job,
        objective: Mapping[str, float] | None = None,
        samples: int = 700,
    ) -> str:
        """Keep a campaign: batch → how long a call takes, in ms."""
        self.clock.pass_s(3600)
        document: dict[str, Any] = {
            "benchmark": benchmark,
            "target": {"model": "m.onnx"},
            "matrix": {"workload.batch": list(levels)},
            "objective": dict(objective or {}),
            "measure": {"runs": len(RUNS)},
        }
        plan = make_plan(load(document), lambda _: {})
        made = self.store.create_campaign(plan, document, labels or {}, "here", self.clock)
        environment: dict[str, Any] = {"machine": MACHINE}
        if commit:
            environment["git"] = {"commit": commit, "changed": False}
        for job, level in zip(made.jobs, levels.values(), strict=True):
            self.store.move_job(job.id, "start")
            outcomes = [self._run(run, level * scale, samples) for run, scale in enumerate(RUNS)]
            kept = [self.store.keep_run(job.id, outcome) for outcome in outcomes]
            judged = judge(
                job,
                [RunOutcome(one, outcome.samples) for one, outcome in zip(kept, outcomes, strict=True)],
                environment,
            )
            result = change(replace(judged, verdict="valid", checks=()))
            event = "finish" if result.state == "done" else "fail"
            self.store.end_job(job.id, event, verdict=result.verdict, result=to_json(result), seconds=1.0)
        self.store.end_campaign(made.jobs[0].campaign, "done", self.clock)
        return made.jobs[0].campaign

    def document(self, campaign: str) -> str:
        """The result document of a campaign."""
        return result_json(read_campaign(self.store, campaign))

    @staticmethod
    def _run(run: int, level: float, samples: int) -> RunOutcome:
        spread = np.random.default_rng(run).gamma(2.0, 0.05, samples)
        values = level * (0.95 + spread) / np.median(0.95 + spread)
        record = SingleRunResult(
            run,
            run == 0,
            f"2026-01-01T00:00:0{run}+00:00",
            f"2026-01-01T00:00:0{run + 1}+00:00",
            1.0,
            metrics={"load_ms": 50.0 + run / 100},
            device=DeviceProof("cpu", "cpu", {}, "made up"),
            window=Window(1.0, 1.0, 0.0, 0.0, 8, 0),
        )
        at = np.arange(samples, dtype=np.int64)
        return RunOutcome(record, (SampleSet("latency_ms", "measure", at, values),))

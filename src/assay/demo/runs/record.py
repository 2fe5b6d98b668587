"""The record of a run that is put together from what was drawn: times, window, energy, telemetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pydantic import JsonValue

from assay.clock import iso
from assay.demo.machines import enrolment
from assay.demo.runs.telemetry import FILE, seen_of, write_telemetry
from assay.demo.scene import Scene
from assay.run.derived import derived
from assay.run.records import DeviceProof, Failure, RunOutcome, SampleSet, SingleRunResult, Window

# Between two runs: the process ends, the next one starts.
_BETWEEN_S = 1.5


@dataclass(frozen=True, slots=True)
class Drawn:
    """One run as its kind of target draws it."""

    phases: Mapping[str, float]
    """Seconds in each."""
    metrics: Mapping[str, float]
    samples: tuple[SampleSet, ...] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    device: DeviceProof | None = None
    work: float = 0.7
    """How busy the device was, as a share."""
    rss_mb: float = 300.0
    spans: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    error: Failure | None = None


def outcomes(scene: Scene, drawn: Sequence[Drawn]) -> list[RunOutcome]:
    """The runs of a job, one after another."""
    found, at = [], 0.0
    for number, one in enumerate(drawn):
        found.append(_outcome(scene, number, one, at))
        at += sum(one.phases.values()) + _BETWEEN_S
    return found


def _outcome(scene: Scene, number: int, drawn: Drawn, at_s: float) -> RunOutcome:
    length = sum(drawn.phases.values())
    seen = None if drawn.error else seen_of(scene, drawn.phases, drawn.work, drawn.rss_mb, drawn.spans)
    labels = {"gpu": _gpu_label(scene)} if scene.machine.gpu else {}
    more, absent, facts = derived(drawn.metrics, seen, scene.job.definition, labels, scene.machine.name)
    files = dict(drawn.files)
    if scene.rich and seen is not None:
        files[FILE] = write_telemetry(scene, number, drawn.phases, drawn.work, drawn.rss_mb)
    begin = scene.at + timedelta(seconds=at_s)
    counts = {one.metric: int(one.value.size) for one in drawn.samples if one.phase == "measure"}
    result = SingleRunResult(
        run_id=number,
        is_cold_start=number == 0,
        started_at=iso(begin),
        completed_at=iso(begin + timedelta(seconds=length)),
        duration_seconds=round(length, 3),
        phases=dict(drawn.phases),
        metrics={} if drawn.error else {**drawn.metrics, **more},
        absent=absent,
        sample_counts=counts,
        facts={**drawn.facts, **facts, "simulated": True},
        device=drawn.device,
        window=None if drawn.error else _window(scene, drawn),
        error=drawn.error,
        seen=seen,
    )
    return RunOutcome(result, drawn.samples, files)


def _window(scene: Scene, drawn: Drawn) -> Window:
    wall, machine = drawn.phases.get("measure", 1.0), scene.machine
    others = 0.18 if scene.busy else float(scene.draw.uniform(0.002, 0.02))
    counted = machine.os == "linux" and machine.architecture == "x86_64"
    return Window(
        wall_s=wall,
        cpu_s=wall * max(0.2, drawn.work * machine.cores * 0.5),
        others_cpu_s=wall * machine.cores * others,
        steal_s=0.0,
        cores=machine.cores,
        throttle_events=(7 if scene.moment.hot else 0) if counted else None,
        harness_ns=180.0,
        load_average_before=0.2,
        load_average_after=1.1,
    )


def _gpu_label(scene: Scene) -> str:
    return enrolment(scene.machine).profile.labels.get("gpu", "")


def failed(scene: Scene, failure: Failure, phases: Mapping[str, float]) -> list[RunOutcome]:
    """The runs of a job that all ended in the same way."""
    return outcomes(scene, [Drawn(phases, {}, error=failure)] * scene.runs)

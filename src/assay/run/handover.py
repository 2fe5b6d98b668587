"""What a child process leaves for its parent: one document, one file of samples and files of its own, or a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from assay.documents import from_json, to_json
from assay.run.contract import Measured
from assay.run.records import DeviceProof, SamplePhase, SampleSet, Window

REPORT = "report.json"
SAMPLES = "samples.npz"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a child could not measure, in its own words."""

    code: str
    message: str
    try_: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class ChildReport:
    """Everything but the samples."""

    phases: Mapping[str, float] = field(default_factory=dict)
    marks: tuple[tuple[str, int, int], ...] = ()  # phase, begin and end, of `time.perf_counter_ns`
    metrics: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    device: DeviceProof | None = None
    window: Window | None = None
    columns: tuple[tuple[str, SamplePhase], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # name → path
    refusal: Refusal | None = None
    left_behind: int = 0  # processes that the target left, ended by the child


def leave(
    folder: Path,
    measured: Measured,
    phases: Mapping[str, float],
    marks: Sequence[tuple[str, int, int]] = (),
    *,
    left_behind: int = 0,
) -> None:
    """Write what was measured; the report comes last, so that its presence means all is there."""
    import numpy as np

    columns = {f"at{index}": one.at_ns for index, one in enumerate(measured.samples)}
    columns |= {f"value{index}": one.value for index, one in enumerate(measured.samples)}  # type: ignore[misc]
    np.savez(folder / SAMPLES, **columns)  # type: ignore[arg-type]
    _write(
        folder,
        ChildReport(
            phases=dict(phases),
            marks=tuple(marks),
            metrics={name: value for name, value in measured.metrics.items() if math.isfinite(value)},
            absent={**measured.absent, **_not_finite(measured.metrics)},
            facts=measured.facts,
            device=measured.device,
            window=measured.window,
            columns=tuple((one.metric, one.phase) for one in measured.samples),
            files={name: str(path) for name, path in measured.files.items()},
            left_behind=left_behind,
        ),
    )


def leave_refusal(folder: Path, refusal: Refusal, phases: Mapping[str, float]) -> None:
    """Write why nothing was measured."""
    _write(folder, ChildReport(phases=dict(phases), refusal=refusal))


def take(folder: Path) -> tuple[ChildReport, tuple[SampleSet, ...]] | None:
    """Read what a child left; None when it died before it could write."""
    path = folder / REPORT
    if not path.exists():
        return None
    report = from_json(ChildReport, path.read_bytes(), source=str(path))
    if report.refusal is not None:
        return report, ()
    import numpy as np

    with np.load(folder / SAMPLES, allow_pickle=False) as columns:
        samples = tuple(
            SampleSet(metric, phase, columns[f"at{index}"], columns[f"value{index}"])
            for index, (metric, phase) in enumerate(report.columns)
        )
    return report, samples


def _not_finite(metrics: Mapping[str, float]) -> dict[str, str]:
    """A number that is none has no place among the measured ones."""
    return {name: f"came out as {value}" for name, value in metrics.items() if not math.isfinite(value)}


def _write(folder: Path, report: ChildReport) -> None:
    partial = folder / f"{REPORT}.part"
    partial.write_text(to_json(report))
    partial.replace(folder / REPORT)

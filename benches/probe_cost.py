"""What it costs a job to be looked at: the same work with probes and without, in turn."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.clock import SYSTEM_CLOCK
from assay.plan.job import Job
from assay.run.execute import execute_job
from assay.run.records import MachineTelemetry, RunOutcome
from assay.run.window import available_cores
from assay.spec.benchmark import Definition
from benches.figures import Figure, median_of
from benches.page import ROOT, Page, Table
from benches.processes import CONTESTANTS, PeerError, there_and_back

EVERY = "100ms"
MOST = 0.005
_ABOUT_MS = 1500.0
_TRIAL_STEPS = 200_000


@dataclass(frozen=True, slots=True)
class Work:
    """Something fixed to do."""

    name: str
    command: tuple[str, ...]


def bench(*, quick: bool = False) -> Page:
    """Run each work with probes and without, in turn, and compare pair by pair."""
    pairs = 4 if quick else 30
    works, absent = _works()
    rows = [_row(work, pairs) for work in works]
    rows += [[name, "not measured", "", "", "", reason] for name, reason in absent.items()]
    columns = [
        "job",
        "without probes, ms",
        "difference with probes, %",
        "their own account, % of one core",
        "a look, ms",
        f"difference < {MOST:.1%}, or below its own interval",
    ]
    notes = [
        (
            f"A program does a fixed amount of work and times itself; `measure.probe` is {EVERY} or `off`. Median over "
            f"{pairs} pairs with its 95 % interval; every second pair is in reverse order."
        ),
        "The account is what assay states on every result (`seen.cost`): processor time of the process that looks.",
    ]
    return Page("probe_cost", "What probes cost", _ABOUT, [Table("With probes and without", columns, rows, notes)])


def _works() -> tuple[list[Work], dict[str, str]]:
    script, cores = str(CONTESTANTS / "cpu_work.py"), available_cores()
    steps = round(
        _TRIAL_STEPS * _ABOUT_MS / _play(Work("", (sys.executable, script, str(_TRIAL_STEPS), "1")), "off")[0]
    )
    works = [
        Work("processor, one core", (sys.executable, script, str(steps), "1")),
        Work(f"processor, all {cores} cores", (sys.executable, script, str(steps), str(cores))),
    ]
    name = "GPU, BF16 matrix products"
    python, reason = _torch()
    if python is None:
        return works, {name: reason}
    script = str(CONTESTANTS / "gpu_work.py")
    trial_ms = _play(Work("", (python, script, "200")), "off")[0]
    return [*works, Work(name, (python, script, str(round(200 * _ABOUT_MS / trial_ms))))], {}


def _row(work: Work, pairs: int) -> list[str]:
    took: dict[str, list[float]] = {"off": [], EVERY: []}
    seen: list[MachineTelemetry] = []
    for probe in there_and_back(list(took), pairs):
        work_ms, looked = _play(work, probe)
        took[probe].append(work_ms)
        seen += [looked] if looked is not None else []
    change = median_of([with_ms / without_ms - 1 for with_ms, without_ms in zip(took[EVERY], took["off"], strict=True)])
    cpu = median_of([one.cost["cpu_pct"] for one in seen])
    look = median_of([one.cost["look_ms"] for one in seen])
    return [work.name, median_of(took["off"]).text(1), change.text(2, 100), cpu.text(2), look.text(3), verdict(change)]


def verdict(change: Figure) -> str:
    """Whether a relative difference keeps the target."""
    if change.high < MOST:
        return "pass"
    if abs(change.value) < (change.high - change.low) / 2:
        return "pass: below its own interval"
    return "**fail**" if change.low >= MOST else "cannot tell"


def _play(work: Work, probe: str) -> tuple[float, MachineTelemetry | None]:
    """How long the work took by its own clock, and what was seen of it."""
    definition = Definition.model_validate(
        {"target": {"command": work.command}, "measure": {"runs": 1, "probe": probe}}
    )
    outcomes: list[RunOutcome] = []
    with tempfile.TemporaryDirectory() as folder:
        execute_job(
            Job("probe cost", "none", 0, definition, base=folder),
            cache=Path(folder),
            clock=SYSTEM_CLOCK,
            watch=_Nobody(),
            keep=outcomes.append,
        )
    result = outcomes[0].result
    if result.error is not None:
        raise PeerError(result.error.message)
    values = next(one.value for one in outcomes[0].samples if one.metric == "work_ms")
    return float(values[0]), result.seen


def _torch() -> tuple[str | None, str]:
    """A Python whose torch can use a GPU, or why there is none."""
    reason = "PyTorch is not installed"
    for python in (sys.executable, str(ROOT / ".venv-torch" / "bin" / "python")):
        if Path(python).exists():
            code = "import torch; print(torch.cuda.is_available())"
            done = subprocess.run([python, "-c", code], capture_output=True, text=True)
            if done.stdout.strip() == "True":
                return python, ""
            reason = "PyTorch sees no GPU here" if done.returncode == 0 else reason
    return None, reason


class _Nobody:
    """Watches nothing."""

    def phase(self, name: str) -> None: ...

    def progress(self, share: float, note: str) -> None: ...

    def run(self, run_id: int, of: int) -> None: ...

    def log(self, lines: Sequence[str]) -> None: ...

    def run_done(self, result: object) -> None: ...


_ABOUT = """During every job another process looks at the job and the machine ten times a second. This is what the job
loses by that: a fixed amount of work, with probes and without, taken in turn."""

"""What the newest results of an agent tell of its machine: fitness, noise, and what its devices can do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median, stdev

from sqlalchemy import select
from sqlalchemy.orm import Session

from assay.analyse.checks.table import CONDITIONS
from assay.analyse.records import Check, Interval, MultiRunJobResult
from assay.documents import from_json
from assay.metrics import Better
from assay.report.device import device_tests, is_device_target
from assay.report.wording import as_number, headline_of, machine, section
from assay.serve.state import ServerStore
from assay.store.database import reading
from assay.store.records import AgentRecord
from assay.store.tables import JobRow

# Results among which tests of devices are looked for.
_MOST_RESULTS = 300
_MOST_DEVICES = 8
_TRIES = 3  # of one device, where the newest result has no number
# Results that are read for the state of the machine, and those that a spread is made of where nothing better is known.
_FOR_STATE = 5
_FOR_NOISE = 20
# Of this many results one at least was measured.
_RESULTS_PER_DEVICE = 4
_FEWEST_RUNS = 3
_PRECISION = re.compile(r"^(fp64|fp32|tf32|fp16|bf16|fp8|int8)(?=_|$)")
_PARTS = ("integer", "memory")
_NO_RESULT = "{} has delivered no result yet"


@dataclass(frozen=True, slots=True)
class AgentFitness:
    """What the newest result says about the state of an agent's machine."""

    checks: tuple[Check, ...]
    at: float | None
    job: str


@dataclass(frozen=True, slots=True)
class AgentNoise:
    """How far the newest results of an agent's machine spread between runs."""

    score: float
    """Smaller is quieter."""
    unit: str
    says: str
    at: float | None
    results: int = 0
    """How many results it is made of."""


@dataclass(frozen=True, slots=True)
class DeviceFigure:
    """One thing that a device can do."""

    test: str
    precision: str | None
    """Of arithmetic; null for memory and transfers."""
    value: float
    unit: str
    interval: Interval | None
    better: Better | None


@dataclass(frozen=True, slots=True)
class DeviceBench:
    """What a device can do, as one job measured it."""

    job: str
    at: float | None
    device: str
    items: tuple[DeviceFigure, ...]
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class AgentHardware:
    """What is known of an agent's machine from results that it delivered."""

    fitness: AgentFitness | None
    noise: AgentNoise | None
    bench: tuple[DeviceBench, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    """What is not known → why."""


def hardware_of(kept: ServerStore, agent: AgentRecord) -> AgentHardware:
    """What is known of an agent's machine from its own results; what is not known says why."""
    newest = _newest(kept, agent.id, _FOR_STATE)
    if not newest:
        why = _NO_RESULT.format(agent.name)
        return AgentHardware(None, None, (), dict.fromkeys(("fitness", "noise", "bench"), why))
    absent: dict[str, str] = {}
    fitness = _fitness(newest)
    if fitness is None:
        absent["fitness"] = "none of its newest results tells the state of the machine before and after"
    noise = _of_control(newest) or _of_results(_newest(kept, agent.id, _FOR_NOISE))
    if noise is None:
        absent["noise"] = f"no result has a control workload with a history, or {_FEWEST_RUNS} runs of one metric"
    bench = _bench(kept, agent.id)
    if not bench:
        absent["bench"] = (
            f"none of its newest {_MOST_RESULTS} results is a test of a device; "
            "run a benchmark with `target: {device: cpu}`, or cuda, on it"
        )
    return AgentHardware(fitness, noise, bench, absent)


def _newest(kept: ServerStore, agent: str, most: int) -> list[MultiRunJobResult]:
    with reading(kept.store.engine) as session:
        ids = _ids(session, agent, _RESULTS_PER_DEVICE * most)
        query = select(JobRow.id, JobRow.result).where(JobRow.id.in_(ids[:most]))
        documents = {row.id: row.result for row in session.execute(query)}
    return [from_json(MultiRunJobResult, documents[job_id], source=job_id) for job_id in ids if documents.get(job_id)]


def _ids(session: Session, agent: str, looked_at: int) -> list[str]:
    """The measured ones among the newest jobs of an agent, the newest first.

    They are asked for alone, and their state only when they are known: a database that has an index of each would
    rather walk all jobs of that state.
    """
    newest = select(JobRow.id, JobRow.state).where(JobRow.agent_id == agent)
    rows = session.execute(newest.order_by(JobRow.submitted_at.desc(), JobRow.id.desc()).limit(looked_at)).all()
    return [row.id for row in rows if row.state == "done"]


# Fitness


def _fitness(newest: Sequence[MultiRunJobResult]) -> AgentFitness | None:
    """The checks of the machine that the newest result carries which has any."""
    for result in newest:
        checks = tuple(check for check in result.checks if check.name in CONDITIONS)
        if checks:
            return AgentFitness(checks, _moment(result.completed_at), result.job)
    return None


# Noise


def _of_control(newest: Sequence[MultiRunJobResult]) -> AgentNoise | None:
    """How far the control workload spreads on this machine, as its own history says."""
    for result in newest:
        control = section(section(section(result.environment, "before"), "fitness"), "control")
        history = section(control, "history")
        bands = {
            part: band for part in _PARTS if (band := as_number(section(history, part).get("band_pct"))) is not None
        }
        if bands:
            widest = max(bands, key=lambda part: bands[part])
            entries = as_number(history.get("entries"))
            often = f", over {entries:g} earlier times" if entries else ""
            says = f"a fixed loop ({widest}) takes within ±{bands[widest]:.1f} % of its usual time here{often}"
            return AgentNoise(round(bands[widest], 3), "%", says, _moment(result.completed_at), 1)
    return None


def _of_results(newest: Sequence[MultiRunJobResult]) -> AgentNoise | None:
    """How far runs of the same job lie apart, in the middle of the newest results."""
    spreads = [spread for result in newest if (spread := _spread(result)) is not None]
    if not spreads:
        return None
    share = 100 * median(spreads)
    says = f"runs of the same job differ by {share:.1f} % (coefficient of variation, middle of {len(spreads)} results)"
    return AgentNoise(round(share, 3), "%", says, _moment(newest[0].completed_at), len(spreads))


def _spread(result: MultiRunJobResult) -> float | None:
    """Coefficient of variation between the runs of a job's first headline metric."""
    for name in headline_of(result)[:1]:
        values = list(result.metrics[name].run_values.values()) if name in result.metrics else []
        if len(values) >= _FEWEST_RUNS and all(value > 0 for value in values):
            return stdev(map(math.log, values))
    return None


# What devices can do


def _bench(kept: ServerStore, agent: str) -> tuple[DeviceBench, ...]:
    """The newest test of each device, the newest first."""
    devices: dict[str, DeviceBench] = {}
    tried: dict[str, int] = {}
    with reading(kept.store.engine) as session:
        ids = _ids(session, agent, _MOST_RESULTS)
        # What was asked for is short, and tells which results are worth reading.
        asked = select(JobRow.id, JobRow.document).where(JobRow.id.in_(ids))
        documents = {row.id: row.document for row in session.execute(asked)}
        for job in ids:
            device = _device_of(documents[job])
            if not device or device in devices or tried.get(device, 0) == _TRIES or len(devices) == _MOST_DEVICES:
                continue
            tried[device] = tried.get(device, 0) + 1
            written = session.scalar(select(JobRow.result).where(JobRow.id == job))
            bench = _device(from_json(MultiRunJobResult, written or "", source=job))
            if bench.items:
                devices[device] = bench
    return tuple(devices.values())


def _device_of(document: str) -> str:
    """The device that a job tests; empty where it measures something else."""
    definition = json.loads(document).get("definition")
    target = section(definition, "target") if isinstance(definition, dict) else {}
    given = {name: value for name, value in target.items() if value is not None}
    return str(given["device"]) if is_device_target(given) else ""


def _device(result: MultiRunJobResult) -> DeviceBench:
    tests = {test.metric: test.name for test in device_tests(result)}
    names = [*tests, *(name for name in headline_of(result) if name not in tests)]
    items = tuple(_figure(result, name, tests.get(name, name)) for name in names if name in result.metrics)
    return DeviceBench(result.job, _moment(result.completed_at), _called(result), items, result.verdict)


def _figure(result: MultiRunJobResult, metric: str, test: str) -> DeviceFigure:
    stats = result.metrics[metric]
    precision = match[1] if (match := _PRECISION.match(metric)) else None
    return DeviceFigure(test, precision, stats.median, stats.unit, stats.interval, stats.better)


def _called(result: MultiRunJobResult) -> str:
    """What a device is called: its own name where the machine tells it, else as the benchmark asks for it."""
    asked = str(section(result.definition, "target").get("device") or "")
    facts = machine(result)
    name = facts.get("cpu") or facts.get("soc") if asked.startswith("cpu") else facts.get("gpu")
    return f"{asked} ({name})" if name else asked


def _moment(written: str | None) -> float | None:
    try:
        return datetime.fromisoformat(written).timestamp() if written else None
    except ValueError:
        return None

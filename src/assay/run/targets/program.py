"""Any command as a target: its duration, its resources, and the metrics that it prints or emits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import IO, cast

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import window
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.processes import rusage_mb
from assay.run.records import SampleSet, Window
from assay.run.services import refuse_ended
from assay.run.targets.launcher import (
    CommandEnvironment,
    Launch,
    command_environment,
    launch_of,
    needs_environment,
)
from assay.run.targets.output import (
    MAX_METRICS,
    MAX_VALUES,
    EmitPipe,
    Emitted,
    OutputCapture,
    PatternMatch,
    ServiceMetrics,
    ServiceOutput,
    UnreadableMatch,
    byte_offsets,
    find_values,
    take_line,
)
from assay.spec.target import CommandTarget

COMMAND_LOG = "command.log"
# A line that begins like an object; a progress bar ends its lines with a carriage return.
_MAYBE_EMITTED = re.compile(r"(?:^|(?<=\r))\{[^\r\n]*", re.MULTILINE)
_ACCOUNTED = ("cpu_s", "cpu_pct", "peak_run_rss_mb")
_NO_ACCOUNT = "the container's processes are not ours, and its control group could not be read"


@dataclass(frozen=True, slots=True)
class _Ended:
    exit_code: int
    start_ns: int
    end_ns: int
    cpu_s: float | None
    """None where it could not be read."""
    peak_rss_mb: float | None
    seen: Window | None


@dataclass(slots=True)
class _Reported:
    output: str
    emitted: Emitted
    matches: list[PatternMatch]
    unreadable: list[UnreadableMatch]
    services: ServiceMetrics = field(default_factory=ServiceMetrics)


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:  # noqa: ARG001  (a command needs no stop rule)
    """Run the command once, with what it needs around it, and collect what it reports."""
    target = cast("CommandTarget", order.job.definition.target)
    pipe = EmitPipe(Path(order.scratch))
    with ExitStack() as until_done:
        around, launch = CommandEnvironment(), None
        if needs_environment(order.job.definition):
            with stage.phase("load"):
                around = until_done.enter_context(command_environment(order, stage))
                launch = launch_of(order, stage, around, pipe.path)
        logs = ServiceOutput(target.metrics, around.services, around.fresh)
        with stage.phase("measure"):
            launch = launch or launch_of(order, stage, around, pipe.path)
            ended, capture = _run(launch, around, order)
            output = capture.finish(timeout_s=2.0)
            refuse_ended(around.services.values())  # why a client failed, where its server is gone
            _refuse_failure(ended, launch)
        with stage.phase("score"):
            emitted = pipe.finish()
            service_metrics = logs.finish()
            _take_printed_emits(output, capture, emitted)
            own = [metric for metric in target.metrics if metric.service is None]
            matches, unreadable = find_values(output, own)
            reported = _Reported(output, emitted, matches, [*unreadable, *service_metrics.unreadable], service_metrics)
            _refuse_too_many(reported)
            samples = _samples(reported, capture, ended.start_ns)
    metrics = _metrics(ended)
    unaccounted = {name: _NO_ACCOUNT for name in _ACCOUNTED if name not in metrics} if launch.is_apart else {}
    return Measured(
        metrics={**metrics, **around.metrics()},
        absent=_absent(target, samples, reported) | unaccounted,
        samples=samples,
        facts={**_facts(launch, capture, reported), **around.facts()},
        window=ended.seen,
    )


def _run(launch: Launch, around: CommandEnvironment, order: Order) -> tuple[_Ended, OutputCapture]:
    beside_s = around.cpu_s()
    before = window.read(own_cpu_s=0.0)
    start_ns = perf_counter_ns()
    process = launch.start()
    capture = OutputCapture(cast("IO[bytes]", process.stdout), Path(order.scratch) / COMMAND_LOG)
    account = launch.account(process.pid)
    exit_code, cpu_s, peak = _wait(process)
    end_ns = perf_counter_ns()
    if launch.is_apart:
        cpu_s, peak = (None, None) if account is None else account.finish()
    seen = None
    if cpu_s is not None:
        beside_s = max(0.0, around.cpu_s() - beside_s)
        seen = window.between(before, window.read(own_cpu_s=cpu_s + beside_s))
    return _Ended(exit_code, start_ns, end_ns, cpu_s, peak, seen), capture


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, float | None, float | None]:
    """Wait for the command; CPU time and peak memory come from the kernel's own account of it."""
    if sys.platform == "win32":
        return process.wait(), 0.0, None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, rusage_mb(usage.ru_maxrss)


def _refuse_failure(ended: _Ended, launch: Launch) -> None:
    code = ended.exit_code
    if code == 0:
        return
    memory = f" at {ended.peak_rss_mb:.0f} MB" if ended.peak_rss_mb is not None else ""
    how = f"was killed by signal {-code}{memory}" if code < 0 else f"exited with code {code}"
    message = f"the command {how}: {launch.shown}"
    try_ = "run the command by hand, or see all that it wrote: assay logs"
    raise MeasureError(message, code="command", try_=try_)


def _take_printed_emits(output: str, capture: OutputCapture, emitted: Emitted) -> None:
    """Lines of `emit` that went to standard output, as they do where the pipe cannot be reached."""
    matches = list(_MAYBE_EMITTED.finditer(output))
    for match, offset in zip(matches, byte_offsets(output, (match.start() for match in matches)), strict=True):
        take_line(match[0].encode(), capture.time_ns(offset), emitted, strict=False)


def _refuse_too_many(reported: _Reported) -> None:
    """End a run that reports without bound, before minutes go into statistics too long to read."""
    given = [*(item.metric for item in reported.matches)]
    given += [metric for metric, *_ in (*reported.emitted.values, *reported.services.values)]
    if len(given) > MAX_VALUES:
        message = f"the command reported more than {MAX_VALUES:,} values in one run, which is as many as are kept"
        try_ = "report one value for many steps, such as their mean or the last one"
        raise MeasureError(message, code="too-many-values", at="target.metrics", try_=try_)
    names = dict.fromkeys(given)
    if len(names) > MAX_METRICS:
        message = (
            f"the command reported {len(names):,} metrics in one run; {MAX_METRICS:,} are kept at most. "
            f"The first is {next(iter(names))[:100]!r}"
        )
        try_ = "report a series under one name, without the number of the step in the name or its context"
        raise MeasureError(message, code="too-many-metrics", at="target.metrics", try_=try_)


def _samples(reported: _Reported, capture: OutputCapture, start_ns: int) -> tuple[SampleSet, ...]:
    columns: dict[str, list[tuple[int, float]]] = {}
    offsets = byte_offsets(reported.output, (item.offset for item in reported.matches))
    for item, offset in zip(reported.matches, offsets, strict=True):
        columns.setdefault(item.metric, []).append((capture.time_ns(offset) - start_ns, item.value))
    for metric, value, at in reported.emitted.values:
        columns.setdefault(metric, []).append((at - start_ns, value))
    for metric, value, at in reported.services.values:  # what a server wrote as it started came before the command
        columns.setdefault(metric, []).append((max(0, at - start_ns), value))
    sample_sets = []
    for metric, rows in columns.items():
        times, values = zip(*rows, strict=True)
        at_ns, numbers = np.array(times, dtype=np.int64), np.array(values, dtype=np.float64)
        sample_sets.append(SampleSet(metric, "measure", at_ns, numbers))
    return tuple(sample_sets)


def _metrics(ended: _Ended) -> dict[str, float]:
    duration_s = (ended.end_ns - ended.start_ns) / 1e9
    metrics = {"duration_s": duration_s}
    if ended.cpu_s is not None:
        metrics |= {"cpu_s": ended.cpu_s, "cpu_pct": 100 * ended.cpu_s / duration_s}
    if ended.peak_rss_mb is not None:
        metrics["peak_run_rss_mb"] = ended.peak_rss_mb
    return metrics


def _absent(target: CommandTarget, samples: tuple[SampleSet, ...], reported: _Reported) -> dict[str, str]:
    seen = {sample.metric.partition("{")[0] for sample in samples}
    lines = reported.output.count("\n")
    reasons = {}
    for metric in target.metrics:
        if metric.name in seen:
            continue
        bad = next((item for item in reported.unreadable if item.metric == metric.name), None)
        if bad is not None:
            reasons[metric.name] = f"its pattern matched {bad.text!r} on line {bad.line}, {bad.why}"
        elif metric.name in reported.services.absent:
            reasons[metric.name] = reported.services.absent[metric.name]
        elif metric.pattern is None:
            reasons[metric.name] = "the command never emitted it"
        elif metric.service is not None:
            reasons[metric.name] = f"its pattern matched nothing that the service {metric.service} wrote"
        else:
            reasons[metric.name] = f"its pattern matched nothing in {lines:,} line{'' if lines == 1 else 's'} of output"
    return reasons


def _facts(launch: Launch, capture: OutputCapture, reported: _Reported) -> Mapping[str, JsonValue]:
    facts: dict[str, JsonValue] = {
        "command": list(launch.asked),
        "output_lines": reported.output.count("\n"),
        "peak_rss_is": "the largest single process of the command's tree",
        **launch.facts,
    }
    if capture.dropped:
        facts["output_bytes_dropped"] = capture.dropped
    if reported.emitted.bad_lines:
        facts["bad_emit_lines"] = list(reported.emitted.bad_lines[:10])
    if reported.unreadable:
        facts["unreadable_matches"] = [f"line {item.line}: {item.text!r}" for item in reported.unreadable[:10]]
    return facts

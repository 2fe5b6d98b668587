"""Any command as a target: its duration, its resources, and the metrics that it prints or emits."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import IO, cast

import numpy as np
from pydantic import JsonValue

from assay.emit import PIPE_VARIABLE
from assay.errors import MeasureError
from assay.run import window
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.memory import rusage_mb
from assay.run.records import SampleSet, Window
from assay.run.targets.capture import EmitPipe, Emitted, OutputCapture, take_line
from assay.run.targets.patterns import Found, Unreadable, find_values
from assay.spec.secrets import resolve_secrets
from assay.spec.target import CommandTarget

COMMAND_LOG = "command.log"


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a command ended and what it used."""

    exit_code: int
    start_ns: int
    end_ns: int
    peak_rss_mb: float | None
    seen: Window


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:  # noqa: ARG001  (a command needs no stop rule)
    """Run the command once and collect what it reports."""
    target = cast("CommandTarget", order.job.definition.target)
    scratch = Path(order.scratch)
    pipe = EmitPipe(scratch)
    with stage.phase("measure"):
        ended, capture = _run(target, order, pipe.path)
    with stage.phase("score"):
        output = capture.finish(timeout_s=2.0)
        emitted = pipe.finish()
        _refuse_failure(ended, target)
        _take_printed_emits(output, capture, emitted)
        found, unreadable = find_values(output, target.metrics)
        samples = _samples(found, capture, emitted, ended.start_ns, output)
    return Measured(
        metrics=_metrics(ended),
        absent=_absent(target, samples, unreadable, output),
        samples=samples,
        facts=_facts(target, capture, emitted, unreadable, output),
        window=ended.seen,
    )


def _run(target: CommandTarget, order: Order, pipe: Path) -> tuple[_Ended, OutputCapture]:
    before = window.read(own_cpu_s=0.0)
    start_ns = perf_counter_ns()
    process = _start(target, order, pipe)
    capture = OutputCapture(cast("IO[bytes]", process.stdout), Path(order.scratch) / COMMAND_LOG)
    exit_code, cpu_s, peak = _wait(process)
    end_ns = perf_counter_ns()
    seen = window.between(before, window.read(own_cpu_s=cpu_s))
    return _Ended(exit_code, start_ns, end_ns, peak, seen), capture


def _start(target: CommandTarget, order: Order, pipe: Path) -> subprocess.Popen[bytes]:
    base = Path(order.job.base)
    folder = base / target.cwd if target.cwd else base
    extra = {name: resolve_secrets(value) for name, value in target.env.items()}
    environment = {**os.environ, **extra, PIPE_VARIABLE: str(pipe), "ASSAY_RUN_ID": str(order.run_id)}
    command = words_of(target)
    try:
        return subprocess.Popen(
            command if not target.shell else " ".join(command),
            shell=target.shell,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as problem:
        raise MeasureError(
            f"cannot start {command[0]!r}: {problem.strerror}",
            code="command",
            at=str(folder),
            try_="check the command and cwd; relative paths start at the benchmark file's folder",
        ) from None


def words_of(target: CommandTarget) -> list[str]:
    """The command as a list of words; the shell's own text when it goes through a shell."""
    if target.shell:
        return [target.command if isinstance(target.command, str) else shlex.join(target.command)]
    return shlex.split(target.command) if isinstance(target.command, str) else list(target.command)


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, float, float | None]:
    """Wait for the command; CPU time and peak memory come from the kernel's own account of it."""
    if sys.platform == "win32":
        return process.wait(), 0.0, None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, rusage_mb(usage.ru_maxrss)


def _refuse_failure(ended: _Ended, target: CommandTarget) -> None:
    code = ended.exit_code
    if code == 0:
        return
    memory = f" at {ended.peak_rss_mb:.0f} MB" if ended.peak_rss_mb is not None else ""
    how = f"was killed by signal {-code}{memory}" if code < 0 else f"exited with code {code}"
    raise MeasureError(
        f"the command {how}: {shlex.join(words_of(target))}",
        code="command",
        try_="run the command by hand; its last output lines are kept with this run",
    )


def _take_printed_emits(output: str, capture: OutputCapture, emitted: Emitted) -> None:
    """Lines of `emit` that went to standard output, as they do where the pipe cannot be reached."""
    offset = 0
    for line in output.splitlines(keepends=True):
        if line.startswith("{"):
            take_line(line.encode(), capture.time_ns(offset), emitted, strict=False)
        offset += len(line.encode())


def _samples(
    found: list[Found], capture: OutputCapture, emitted: Emitted, start_ns: int, output: str
) -> tuple[SampleSet, ...]:
    columns: dict[str, list[tuple[int, float]]] = {}
    characters = octets = 0  # the output is walked once: its pieces came in bytes, its matches in characters
    for item in found:
        octets += len(output[characters : item.offset].encode())
        characters = item.offset
        columns.setdefault(item.metric, []).append((capture.time_ns(octets) - start_ns, item.value))
    for metric, value, at in emitted.values:
        columns.setdefault(metric, []).append((at - start_ns, value))
    return tuple(_sample_set(metric, rows) for metric, rows in columns.items())


def _sample_set(metric: str, rows: list[tuple[int, float]]) -> SampleSet:
    times, values = zip(*rows, strict=True)
    return SampleSet(metric, "measure", np.array(times, dtype=np.int64), np.array(values, dtype=np.float64))


def _metrics(ended: _Ended) -> dict[str, float]:
    duration_s = (ended.end_ns - ended.start_ns) / 1e9
    metrics = {"duration_s": duration_s, "cpu_s": ended.seen.cpu_s, "cpu_pct": 100 * ended.seen.cpu_s / duration_s}
    if ended.peak_rss_mb is not None:
        metrics["peak_run_rss_mb"] = ended.peak_rss_mb
    return metrics


def _absent(
    target: CommandTarget, samples: tuple[SampleSet, ...], unreadable: list[Unreadable], output: str
) -> dict[str, str]:
    seen = {sample.metric.partition("{")[0] for sample in samples}
    lines = output.count("\n")
    reasons = {}
    for metric in target.metrics:
        if metric.name in seen:
            continue
        bad = next((item for item in unreadable if item.metric == metric.name), None)
        if bad is not None:
            reasons[metric.name] = f"its pattern matched {bad.text!r} on line {bad.line}, which is not a number"
        elif metric.pattern is None:
            reasons[metric.name] = "the command never emitted it"
        else:
            reasons[metric.name] = f"its pattern matched nothing in {lines} lines of output"
    return reasons


def _facts(
    target: CommandTarget, capture: OutputCapture, emitted: Emitted, unreadable: list[Unreadable], output: str
) -> Mapping[str, JsonValue]:
    facts: dict[str, JsonValue] = {
        "command": list(words_of(target)),
        "output_lines": output.count("\n"),
        "peak_rss_is": "the largest single process of the command's tree",
    }
    if capture.dropped:
        facts["output_bytes_dropped"] = capture.dropped
    if emitted.bad_lines:
        facts["bad_emit_lines"] = list(emitted.bad_lines[:10])
    if unreadable:
        facts["unreadable_matches"] = [f"line {item.line}: {item.text!r}" for item in unreadable[:10]]
    return facts

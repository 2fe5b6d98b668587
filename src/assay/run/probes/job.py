"""Probe of a job and its machine: a process that samples them, one for all runs of the job, ended with its parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from assay.run.pipes import readable
from assay.run.probes.columns import WINDOW
from assay.run.records import Energy, MachineTelemetry

FILE = "machine.csv.gz"
"""All readings of a run: CSV, packed with gzip; columns source, name, labels (JSON), at_ns (`perf_counter_ns`), value.
Sources are `job`, `others`, `own`, `machine`, `gpu:0`, `rapl:package-0` and `phase`, whose value is 1 where a phase
begins and 0 where it ends."""
_LOG = "sampler.log"
# No run waits longer for it to be ready: it may join later.
_BEGIN_S = 1.0
_SUM_UP_S = 30.0
# What a pipe holds without a reader: more could keep us waiting for a process that hangs.
_MOST_BYTES = 60_000


class JobProbe:
    """The process that samples; nothing that happens to it is raised, `MachineTelemetry.absent` says it."""

    def __init__(self, scratch: Path, every_s: float, own: Collection[int] = ()) -> None:
        self._every_s, self._own, self._log = every_s, tuple(own), scratch / _LOG
        self._begin_ns = time.perf_counter_ns()
        self._rest = b""
        self._why = ""
        self._asked = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "assay.run.probes.sampler"],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=sys.platform != "win32",
                )
        except OSError as problem:
            self._why = f"the watching process could not be started: {problem.strerror or problem}"

    def ready(self) -> None:
        """Have it look at the machine, which nothing of the job uses yet; wait a moment where that tells idle power."""
        if not self._asked:
            self._asked = True
            self._say({"every_s": self._every_s, "own": self._own})
            # Without counters it may as well get ready while the process of the run does.
            self._answer(_BEGIN_S if _has_counters() else 0.0, "ready")

    def begin(self, pid: int, beside: Collection[int] = ()) -> None:
        """A run begins.

        Args:
            beside: processes that belong to it and are no children of the first one, such as shared services.
        """
        self.ready()
        self._begin_ns = time.perf_counter_ns()
        self._say({"begin": pid, "beside": tuple(beside)})

    def finish(
        self, marks: Sequence[tuple[str, int, int]], spans: Mapping[str, tuple[int, int]], file: Path
    ) -> MachineTelemetry:
        """The run has ended: what was seen of it.

        Args:
            marks: its phases with begin and end; the measured window is the mark `window`, else that of `measure`, else
                the whole run.
            spans: parts of the run to be told by themselves, such as tests of a device.
        """
        ask: dict[str, Any] = {"finish": str(file), "marks": marks, "spans": spans}
        if len(json.dumps(ask)) > _MOST_BYTES:
            measured = [mark for mark in marks if mark[0] == "measure"]
            ask["marks"] = [("measure", measured[0][1], measured[-1][2])] if measured else []
            ask["marks"] += [mark for mark in marks if mark[0] == WINDOW]
            ask["spans"] = {}
        self._say(ask)
        told = self._answer(_SUM_UP_S, "seen")
        try:
            if told:
                return _seen(told["seen"])
        except (KeyError, TypeError, ValueError) as problem:
            self._give_up(f"the watching process said something else: {problem!r}")
        with suppress(OSError):
            file.unlink(missing_ok=True)  # half of it is no file
        return MachineTelemetry((self._begin_ns, time.perf_counter_ns()), self._every_s, 0, absent={"probe": self._why})

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.kill()
        self._process.wait()

    def _say(self, document: Mapping[str, Any]) -> None:
        if self._why or self._process is None:
            return
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")  # type: ignore[union-attr]
        except OSError:
            self._give_up(self._state())

    def _answer(self, within_s: float, wanted: str) -> dict[str, Any]:
        """The answer that is waited for; one that comes too late to an earlier question is passed over."""
        until_s = time.monotonic() + within_s
        while not self._why and self._process is not None:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                with suppress(ValueError):
                    told = json.loads(line)
                    if wanted in told:
                        return dict(told)
                continue
            output = self._process.stdout.fileno()  # type: ignore[union-attr]
            if not readable(output, max(0.0, until_s - time.monotonic())):
                if wanted != "ready":  # it may still come; a run that has ended waits no longer
                    self._give_up("the watching process does not answer")
                return {}
            chunk = os.read(output, 1 << 16)
            if not chunk:
                self._give_up(self._state())
            self._rest += chunk
        return {}

    def _give_up(self, why: str) -> None:
        self._why = self._why or why
        if self._process is not None:
            self._process.kill()

    def _state(self) -> str:
        """How the process ended, with the last line that it wrote."""
        if self._process is None:
            return self._why
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # one that was killed this moment is not gone yet
        lines: list[str] = []
        with suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        code = self._process.poll()
        state = "has closed its output" if code is None else f"ended with code {code}"
        return f"the watching process {state}{''.join(f': {line[:300]}' for line in lines)}"


def _has_counters() -> bool:
    """Whether this machine may tell what it uses when idle."""
    from assay.run.probes.readers.gpus import has_driver

    return sys.platform != "linux" or has_driver() or any(Path("/sys/class/powercap").glob("*rapl*"))


@contextmanager
def job_probe(scratch: Path, every_s: float, own: Collection[int] = ()) -> Iterator[JobProbe]:
    """Have all runs of a job watched from another process.

    Args:
        own: processes of ours, which are neither the job nor others.
    """
    probe = JobProbe(scratch, every_s, own)
    try:
        yield probe
    finally:
        probe.end()


def _seen(told: Mapping[str, Any]) -> MachineTelemetry:
    begin, end = told["window_ns"]
    return MachineTelemetry(
        window_ns=(begin, end),
        every_s=told["every_s"],
        looks=told["looks"],
        statistics=told["statistics"],
        energy=tuple(Energy(**one) for one in told["energy"]),
        throttled={device: tuple(reasons) for device, reasons in told["throttled"].items()},
        foreign={device: tuple(names) for device, names in told["foreign"].items()},
        spans=told["spans"],
        cost=told["cost"],
        absent=told["absent"],
    )

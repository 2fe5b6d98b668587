"""Probes of a service, of a job and its machine: in another process, so that they cost the measuring one nothing.

What the process of a probe does is in `service_sampler` and `sampler`; it ends with its parent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.run.pipes import readable
from assay.run.probes.columns import WINDOW

if TYPE_CHECKING:
    from assay.run.records import MachineTelemetry


SERVICE_FILE = "telemetry.csv.gz"
_SERVICE_LOG = "probe.log"
_SERVICE_BEGIN_S = 30.0
_SERVICE_SUM_UP_S = 120.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Telemetry of a service: its own metrics, its processes and GPUs."""

    file: Path | None = None
    """All readings: CSV, packed with gzip; columns source, name, labels (JSON), at_ns (`perf_counter_ns`), value."""
    rows: int = 0
    server_view: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Source → a statistic of assay, such as `ttft_ms.p50` → the server's own `value`, `from` which of its metrics, and
    for a histogram `between` which edges it lies."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For the result: the summary of each source, processes, GPUs, how many scrapes failed, and what the probe cost."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """What could not be seen, and why."""


class _SamplerProcess:
    """A process that samples, with lines of JSON to and from it; what goes wrong is kept in `_why`, never raised."""

    def __init__(self, module: str, log: Path) -> None:
        self._log, self._rest, self._why = log, b"", ""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with log.open("wb") as file:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    start_new_session=sys.platform != "win32",
                )
        except OSError as problem:
            self._why = f"the watching process could not be started: {problem.strerror or problem}"

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.kill()
        self._process.wait()

    def _say(self, document: object) -> None:
        if self._why or self._process is None:
            return
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")  # type: ignore[union-attr]
        except OSError:
            self._give_up(self._state("has closed its output"))

    def _answer(self, within_s: float, wanted: str, *, optional: bool = False) -> dict[str, Any]:
        """The answer that is waited for; one that comes too late to an earlier question is passed over.

        Args:
            optional: whether no answer in time is no failure.
        """
        until_s = time.monotonic() + within_s
        while not self._why and self._process is not None:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                with suppress(ValueError):
                    document = json.loads(line)
                    if wanted in document:
                        return dict(document)
                continue
            output = self._process.stdout.fileno()  # type: ignore[union-attr]
            if not readable(output, max(0.0, until_s - time.monotonic())):
                if not optional:
                    self._give_up(self._state("does not answer"))
                return {}
            chunk = os.read(output, 1 << 16)
            if not chunk:
                self._give_up(self._state("has closed its output"))
            self._rest += chunk
        return {}

    def _give_up(self, why: str) -> None:
        self._why = self._why or why
        if self._process is not None:
            self._process.kill()

    def _state(self, running: str) -> str:
        """How the process ended, or what it does while it runs, with the last line that it wrote."""
        code = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(1.0)  # one that was killed this moment is not gone yet
        lines: list[str] = []
        with suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        state = running if code is None else f"ended with code {code}"
        return f"the watching process {state}{''.join(f': {line[:300]}' for line in lines)}"


class ServiceProbe(_SamplerProcess):
    """A process that watches a service; `finish` ends it."""

    def __init__(self, scratch: Path) -> None:
        super().__init__("assay.run.probes.service_sampler", scratch / _SERVICE_LOG)
        self._path = scratch / SERVICE_FILE
        self._telemetry: Telemetry | None = None

    def begin(self, order: Mapping[str, Any]) -> None:
        """Say what to watch, and wait until the first reading may be under way: its imports disturb no measurement."""
        self._say(order)
        self._answer(_SERVICE_BEGIN_S, "ready")

    def finish(self, window: tuple[int, int]) -> Telemetry:
        """Stop sampling and sum up the measured window; whatever went wrong is noted in `absent`, never raised.

        Args:
            window: its begin and end, of `time.perf_counter_ns`.
        """
        if self._telemetry is None:
            self._say([int(window[0]), int(window[1])])
            summary = self._answer(_SERVICE_SUM_UP_S, "rows")
            self._telemetry = _telemetry(summary, self._path) if summary else Telemetry(absent={"telemetry": self._why})
            self.end()
        return self._telemetry


@contextmanager
def service_probe(
    *,
    scratch: Path,
    scrapes: Mapping[str, str] | None = None,
    pids: Mapping[str, int] | None = None,
    headers: Mapping[str, str] | None = None,
    every_s: float = 1.0,
    process_every_s: float = 0.1,
    gpus: bool = True,
    verify: bool = True,
    ca: str | None = None,
    addresses: Mapping[str, str] | None = None,
) -> Iterator[ServiceProbe]:
    """Watch services from another process.

    Args:
        scrapes: name → URL of a Prometheus text endpoint.
        headers: sent with every scrape; secrets by `${env:NAME}`.
        process_every_s: time between two looks at processes and GPUs.
        ca: file with the certificates to trust in place of the system's.
        addresses: name → where to connect for a scrape, in place of whatever the host's name says then.
    """
    order = {
        "path": str(scratch / SERVICE_FILE),
        "scrapes": dict(scrapes or {}),
        "pids": dict(pids or {}),
        "gpus": gpus,
        "headers": dict(headers or {}),
        "every_s": every_s,
        "process_every_s": process_every_s,
        "verify": verify,
        "ca": ca,
        "addresses": dict(addresses or {}),
    }
    probe = ServiceProbe(scratch)
    try:
        probe.begin(order)
        yield probe
    finally:
        probe.end()


def _telemetry(document: Mapping[str, Any], path: Path) -> Telemetry:
    server = document["server"]
    facts = {
        "server": {
            source: {key: value for key, value in summary.items() if key != "server_view"}
            for source, summary in server.items()
        },
        "processes": document["processes"],
        "gpus": document["gpus"],
        "scrapes": document["scrapes"],
        "probe_cpu_s": document["cpu_s"],
    }
    return Telemetry(
        file=path if document["rows"] else None,
        rows=document["rows"],
        server_view={source: summary["server_view"] for source, summary in server.items() if summary["server_view"]},
        facts={name: value for name, value in facts.items() if value or value == 0},
        absent=document["absent"],
    )


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


class JobProbe(_SamplerProcess):
    """The process that samples; nothing that happens to it is raised, `MachineTelemetry.absent` says it."""

    def __init__(self, scratch: Path, every_s: float, own: Collection[int] = ()) -> None:
        super().__init__("assay.run.probes.sampler", scratch / _LOG)
        self._every_s, self._own = every_s, tuple(own)
        self._begin_ns = time.perf_counter_ns()
        self._stop_requested = False

    def ready(self) -> None:
        """Have it look at the machine, which nothing of the job uses yet; wait a moment where that tells idle power."""
        if not self._stop_requested:
            self._stop_requested = True
            self._say({"every_s": self._every_s, "own": self._own})
            # Without counters it may as well get ready while the process of the run does.
            self._answer(_BEGIN_S if _has_counters() else 0.0, "ready", optional=True)

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
            spans: parts of the run to be reported separately, such as tests of a device.
        """
        order: dict[str, Any] = {"finish": str(file), "marks": marks, "spans": spans}
        if len(json.dumps(order)) > _MOST_BYTES:
            measured = [mark for mark in marks if mark[0] == "measure"]
            order["marks"] = [("measure", measured[0][1], measured[-1][2])] if measured else []
            order["marks"] += [mark for mark in marks if mark[0] == WINDOW]
            order["spans"] = {}
        self._say(order)
        summary = self._answer(_SUM_UP_S, "seen")
        try:
            if summary:
                return _machine_telemetry(summary["seen"])
        except (KeyError, TypeError, ValueError) as problem:
            self._give_up(f"the watching process said something else: {problem!r}")
        with suppress(OSError):
            file.unlink(missing_ok=True)  # half of it is no file
        from assay.run.records import MachineTelemetry  # here: the samplers import this package, and need no records

        return MachineTelemetry((self._begin_ns, time.perf_counter_ns()), self._every_s, 0, absent={"probe": self._why})


def _has_counters() -> bool:
    """Whether this machine may tell what it uses when idle."""
    from assay.run.probes.readers.gpus import has_driver

    return sys.platform != "linux" or has_driver() or any(Path("/sys/class/powercap").glob("*rapl*"))


@contextmanager
def job_probe(scratch: Path, every_s: float, own: Collection[int] = ()) -> Iterator[JobProbe]:
    """Have all runs of a job watched from another process.

    Args:
        own: assay's own processes, which are neither the job nor others.
    """
    probe = JobProbe(scratch, every_s, own)
    try:
        yield probe
    finally:
        probe.end()


def _machine_telemetry(summary: Mapping[str, Any]) -> MachineTelemetry:
    from assay.run.records import Energy, MachineTelemetry

    return MachineTelemetry(
        **{
            **summary,
            "window_ns": tuple(summary["window_ns"]),
            "energy": tuple(Energy(**reading) for reading in summary["energy"]),
            "throttled": {device: tuple(reasons) for device, reasons in summary["throttled"].items()},
            "foreign": {device: tuple(names) for device, names in summary["foreign"].items()},
        }
    )

"""Probe of a service while it is measured: in another process, so that it costs the measuring one nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from assay.run.pipes import readable

FILE = "telemetry.csv.gz"
_LOG = "probe.log"
_BEGIN_S = 30.0
_SUM_UP_S = 120.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Telemetry of a service: its own metrics, its processes and GPUs."""

    file: Path | None = None
    """All readings: CSV, packed with gzip; columns source, name, labels (JSON), at_ns (`perf_counter_ns`), value."""
    rows: int = 0
    server_view: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Source → statistic of ours, such as `ttft_ms.p50` → the server's own `value`, `from` which of its metrics, and
    for a histogram `between` which edges it lies."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For the result: the summary of each source, processes, GPUs, how many scrapes failed, and what the probe cost."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """What could not be seen, and why."""


class ServiceProbe:
    """A process that watches; `finish` ends it."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path, log: Path) -> None:
        self._process, self._path, self._log = process, path, log
        self._telemetry: Telemetry | None = None

    def finish(self, window: tuple[int, int]) -> Telemetry:
        """Stop sampling and sum up the measured window; whatever went wrong is noted in `absent`, never raised.

        Args:
            window: its begin and end, of `time.perf_counter_ns`.
        """
        if self._telemetry is None:
            told = self._ask(json.dumps([int(window[0]), int(window[1])]), _SUM_UP_S)
            self._telemetry = _telemetry(told, self._path) if told else Telemetry(absent={"telemetry": self._why()})
            self.end()
        return self._telemetry

    def end(self) -> None:
        """End the process, whatever it does."""
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]

    def begin(self, order: str) -> None:
        """Say what to watch, and wait until the first reading may be under way: its imports disturb no measurement."""
        if not self._ask(order, _BEGIN_S):
            self._telemetry = Telemetry(absent={"telemetry": self._why()})

    def _ask(self, line: str, within_s: float) -> dict[str, Any]:
        try:
            self._process.stdin.write(line.encode() + b"\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
            answers = cast("IO[bytes]", self._process.stdout)
            if not readable(answers.fileno(), within_s):
                return {}
            told: dict[str, Any] = json.loads(answers.readline() or b"{}")
        except (OSError, ValueError):
            return {}
        return told

    def _why(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # one that was killed this moment is not gone yet
        code = self._process.poll()
        state = "does not answer" if code is None else f"ended with code {code}"
        with suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            return f"the watching process {state}{''.join(f': {line[:300]}' for line in lines)}"
        return f"the watching process {state}"


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
        "path": str(scratch / FILE),
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
    with (scratch / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "assay.run.probes.service_sampler"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ,
        )
    probe = ServiceProbe(process, scratch / FILE, scratch / _LOG)
    try:
        probe.begin(json.dumps(order))
        yield probe
    finally:
        probe.end()


def _telemetry(told: Mapping[str, Any], path: Path) -> Telemetry:
    server = told["server"]
    facts = {
        "server": {
            source: {key: value for key, value in one.items() if key != "server_view"} for source, one in server.items()
        },
        "processes": told["processes"],
        "gpus": told["gpus"],
        "scrapes": told["scrapes"],
        "probe_cpu_s": told["cpu_s"],
    }
    return Telemetry(
        file=path if told["rows"] else None,
        rows=told["rows"],
        server_view={source: one["server_view"] for source, one in server.items() if one["server_view"]},
        facts={name: value for name, value in facts.items() if value or value == 0},
        absent=told["absent"],
    )

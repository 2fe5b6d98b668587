"""Prometheus: its program and configuration, its HTTP API, the scrapes in it, and the tunnel to one in a cluster."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from assay.errors import MeasureError, UsageError
from assay.store.telemetry import Metrics, ScrapedSeries, merged

if TYPE_CHECKING:
    from assay.spec.benchmark import Monitoring, Service

VARIABLE = "ASSAY_PROMETHEUS"
NAME = "prometheus"
JOB = "assay"
"""The label `job` of what belongs to no job of the campaign alone."""
_INSIDE = "/assay-monitoring"  # where its folder is in a container
# Its own health and that of the Go runtime say nothing about what is measured.
_NOISE = "(go|promhttp|process_virtual)_.*|node_scrape_collector_.*"


def find_program(settings: Monitoring, environ: Mapping[str, str] | None = None) -> str | None:
    """The program that is to be started; None where an image is."""
    if settings.image is not None:
        return None
    env = os.environ if environ is None else environ
    wanted = settings.program or env.get(VARIABLE) or "prometheus"
    program = shutil.which(wanted, path=env.get("PATH"))
    if program is not None:
        return program
    raise MeasureError(
        f"monitoring was asked for, and there is no program {wanted!r}",
        code="no-prometheus",
        at="monitoring",
        try_=f"install Prometheus (Debian: `apt-get install prometheus`), name the program by {VARIABLE} or "
        "monitoring.program or an image by monitoring.image, or continue without it by `monitoring: {required: false}`",
    )


def configuration(discovery: str, settings: Monitoring) -> dict[str, Any]:
    """The configuration of Prometheus: which files name its targets, and how often to scrape them."""
    return {
        "global": {
            "scrape_interval": f"{round(settings.interval * 1e3)}ms",
            "scrape_timeout": f"{round(settings.interval * 1e3)}ms",
        },
        "scrape_configs": [
            {
                "job_name": JOB,
                "file_sd_configs": [{"files": [f"{discovery}/*.json"], "refresh_interval": "2s"}],
                "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": _NOISE, "action": "drop"}],
            }
        ],
    }


def prometheus_service(settings: Monitoring, folder: Path, discovery: Path) -> Service:
    """Prometheus as a service that is started and ended like every other one.

    Args:
        folder: for its configuration and data; on a disk of this machine, since its storage needs one.
    """
    from assay.spec.benchmark import Ready, Service

    program = find_program(settings)
    at, targets = (str(folder), str(discovery)) if program else (_INSIDE, f"{_INSIDE}/discovery")
    data = folder / "data"
    data.mkdir(exist_ok=True)
    if program is None:
        data.chmod(0o777)  # images run it as a user of their own
    # JSON is YAML, with nothing to quote wrongly.
    (folder / "prometheus.yml").write_text(json.dumps(configuration(targets, settings), indent=2), encoding="utf-8")
    words = (
        program or "prometheus",
        f"--config.file={at}/prometheus.yml",
        f"--storage.tsdb.path={at}/data",
        f"--storage.tsdb.retention.time={round(settings.retention)}s",
        f"--web.listen-address={settings.listen}:{{port}}",
        "--log.level=warn",
    )
    ready = Ready(http="/-/ready", within=60.0)
    if program is not None:
        return Service(command=words, port=settings.port, ready=ready)
    mounts = {str(folder): _INSIDE, str(discovery): targets}
    return Service(
        image=settings.image,
        container=settings.container,
        command=words,
        mounts=mounts,
        port=settings.port,
        ready=ready,
    )


_ANSWER_S = 30.0
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class PrometheusApi:
    """One Prometheus by its URL."""

    url: str

    def targets(self) -> list[dict[str, Any]]:
        return list(self._request("GET", "/api/v1/targets?state=active")["activeTargets"])

    def kinds(self) -> dict[str, str]:
        """Family → its kind, of everything that it scrapes now."""
        metadata = self._request("GET", "/api/v1/metadata")
        return {name: str(entries[0].get("type", "")) for name, entries in metadata.items() if entries}

    def version(self) -> str:
        return str(self._request("GET", "/api/v1/status/buildinfo").get("version", ""))

    def raw(self, selector: str, length_ms: int, until_ms: int) -> list[dict[str, Any]]:
        """The scrapes themselves in a stretch of time, as they were taken.

        A range query would give a value for every step, also where nothing was scraped for minutes. A range in an
        instant query gives what is there and nothing else.
        """
        form = {"query": f"{selector}[{length_ms}ms]", "time": f"{until_ms / 1e3:.3f}"}
        return list(self._request("POST", "/api/v1/query", urlencode(form).encode())["result"])

    def _request(self, method: str, path: str, body: bytes | None = None) -> Any:  # noqa: ANN401  (JSON has no narrower type)
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S)
        try:
            connection.request(method, path, body, _FORM if body is not None else {})
            answer = connection.getresponse()
            reply = json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as problem:
            raise self._failed(f"{type(problem).__name__}: {problem}".rstrip(": ")) from None
        finally:
            connection.close()
        if answer.status != 200 or reply.get("status") != "success":
            raise self._failed(f"status {answer.status}: {str(reply.get('error', ''))[:300]}")
        return reply["data"]

    def _failed(self, why: str) -> MeasureError:
        message = f"Prometheus does not answer: {why}"
        return MeasureError(message, code="prometheus", at=self.url, try_="look at its log; was it killed for memory?")


# One answer holds some megabytes of text at most: 500 series of a node at 1 Hz are 1 MB a minute.
_CHUNK_MS = 120_000
_SUFFIXES = ("_bucket", "_sum", "_count")
# Of a node, what says how busy it was. Services, GPUs and the state of the scrapes are kept whole.
CHOSEN = (
    "node_cpu_seconds_total", "node_load1", "node_load5", "node_memory_MemTotal_bytes",
    "node_memory_MemAvailable_bytes", "node_memory_MemFree_bytes", "node_memory_Cached_bytes",
    "node_memory_Buffers_bytes", "node_memory_SwapTotal_bytes", "node_memory_SwapFree_bytes",
    "node_disk_read_bytes_total", "node_disk_written_bytes_total", "node_disk_io_time_seconds_total",
    "node_network_receive_bytes_total", "node_network_transmit_bytes_total", "node_network_receive_drop_total",
    "node_network_transmit_drop_total", "node_network_receive_errs_total", "node_network_transmit_errs_total",
    "node_pressure_cpu_waiting_seconds_total", "node_pressure_io_waiting_seconds_total",
    "node_pressure_memory_waiting_seconds_total", "node_context_switches_total", "node_procs_running",
    "node_boot_time_seconds",
)  # fmt: skip


def selector(labels: Mapping[str, str], keep: str) -> str:
    """The series that are taken out, as Prometheus selects them."""
    matchers = [f"{name}={json.dumps(value)}" for name, value in labels.items()]
    if keep == "chosen":
        matchers.append(f'__name__=~"{"|".join(CHOSEN)}|[^n].*|n[^o].*|no[^d].*|nod[^e].*|node[^_].*"')
    else:
        matchers.append('__name__=~".+"')
    return f"{{{','.join(matchers)}}}"


def export(
    api: PrometheusApi,
    labels: Mapping[str, str],
    begin_s: float,
    end_s: float,
    settings: Monitoring,
    kinds: Mapping[str, str],
) -> Metrics:
    """Everything that was scraped of some labels in a stretch of time."""
    wanted = selector(labels, settings.keep)
    parts = [
        _metrics(api.raw(wanted, high - low + 1, high), low, high, settings.interval, kinds)
        for low, high in _chunks(round(begin_s * 1e3), round(end_s * 1e3))
    ]
    return merged(parts)


def _chunks(begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    while begin_ms <= end_ms:
        yield begin_ms, min(begin_ms + _CHUNK_MS, end_ms)
        begin_ms += _CHUNK_MS + 1


def _metrics(rows: list[dict[str, Any]], low: int, high: int, interval_s: float, kinds: Mapping[str, str]) -> Metrics:
    import numpy as np

    series = []
    for row in rows:
        labels = {name: str(value) for name, value in row["metric"].items() if name != "__name__"}
        name = str(row["metric"].get("__name__", ""))
        at_ms = np.array([round(at * 1e3) for at, _ in row["values"]], dtype=np.int64)
        value = np.array([float(text) for _, text in row["values"]], dtype=np.float64)
        inside = (at_ms >= low) & (at_ms <= high)  # what counts as the edge of a range differs between versions
        if inside.any():
            series.append(ScrapedSeries(name, labels, kind_of(name, kinds), at_ms[inside], value[inside]))
    return Metrics(tuple(series), interval_s, low / 1e3, high / 1e3)


def kind_of(name: str, kinds: Mapping[str, str]) -> str:
    """The kind of a series; empty where it is not known."""
    owner: Callable[[str], str] = lambda family: kinds.get(family, "")  # noqa: E731
    if owner(name) not in ("", "unknown", "untyped"):
        return owner(name)
    family = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
    return owner(family) if owner(family) in ("histogram", "summary") else ""


_HOST = re.compile(r"^(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9_][A-Za-z0-9_.-]*$")


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A way from one's own machine to a port inside a cluster."""

    login: str
    """The login node, as ssh knows it: `user@login.example.org`, or a name from ~/.ssh/config."""
    node: str
    port: int
    local_port: int = 9090
    listen: str = "127.0.0.1"
    """The address on which the server inside answers."""

    def words(self) -> list[str]:
        """The command.

        A server that answers on the loopback address alone is reached from its own node; any other one also from the
        login node, where users may not log in to compute nodes.
        """
        for name in (self.login, self.node):
            if not _HOST.match(name) or name.startswith("-"):
                raise UsageError(f"{name!r} is not a valid name of a host", code="host", try_="write user@host or host")
        if self.listen in ("127.0.0.1", "localhost", "::1"):
            return ["ssh", "-N", "-J", self.login, "-L", f"{self.local_port}:127.0.0.1:{self.port}", self.node]
        return ["ssh", "-N", "-L", f"{self.local_port}:{self.node}:{self.port}", self.login]

    def text(self) -> str:
        """The command and what to open then."""
        return f"{shlex.join(self.words())}\nhttp://localhost:{self.local_port}"

"""The sampler of a service: `python -m assay.run.probes.service_sampler`, started by `service_probe`, never by a user.

Its standard input is one line that says what to sample, then one that says for which window to sum up; at its end the
process ends. Its standard output answers each with one line.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from assay.errors import AssayError
from assay.hardware.gpu.nvml import GpuLostError, GpuReader, Load
from assay.run.probes.columns import Rows, Window, answer, write
from assay.run.probes.prometheus import ScrapeEndpoint, Scraper
from assay.run.probes.series import MetricSeries, rate_per_s, readings, summarise
from assay.spec.references import resolve_secrets

# Walking all processes for new children costs a millisecond or two; reading the known ones costs much less.
CHILDREN_EVERY_S = 1.0
NAMES = ("cpu_s", "rss_bytes", "threads", "processes")


class ServiceProcesses:
    """One process and its descendants, read as one."""

    def __init__(self, source: str, pid: int) -> None:
        self.source = source
        self._root = pid
        self._known: dict[int, psutil.Process] = {}
        self._cpu_s: dict[int, float] = {}
        self._total_cpu_s = 0.0
        self._read_s = float("-inf")
        self.gone = ""
        self.columns = {name: MetricSeries(name, (), "counter" if name == "cpu_s" else "gauge", name) for name in NAMES}

    @property
    def pids(self) -> set[int]:
        """Processes seen so far."""
        return set(self._cpu_s)

    def read(self) -> None:
        """Take one reading of all processes that are there."""
        now_s = time.monotonic()
        if now_s - self._read_s >= CHILDREN_EVERY_S:
            self._read_s = now_s
            self._read()
        at_ns = time.perf_counter_ns()
        rss = threads = alive = 0
        for pid, process in list(self._known.items()):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    rss += process.memory_info().rss
                    threads += process.num_threads()
            except psutil.Error:
                del self._known[pid]
                continue
            alive += 1
            # What a new process used since its birth belongs to the tree; what the first one used before us does not.
            spent = times.user + times.system
            self._total_cpu_s += max(
                0.0, spent - self._cpu_s.get(pid, spent if not self.columns["cpu_s"].at_ns else 0.0)
            )
            self._cpu_s[pid] = spent
        if alive:
            for name, value in zip(NAMES, (self._total_cpu_s, rss, threads, alive), strict=True):
                self.columns[name].add(at_ns, float(value))

    def _read(self) -> None:
        try:
            top = self._known.get(self._root) or psutil.Process(self._root)
            processes = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            self.gone = f"process {self._root} has ended"
        except psutil.Error as refused:
            self.gone = str(refused)
        else:
            self._known = {process.pid: self._known.get(process.pid, process) for process in processes}


_NAMES = ("gpu_util_pct", "gpu_mem_bytes", "power_w")


class GpuSeries:
    """All GPUs, or the reason why none can be read."""

    def __init__(self, load: Load = import_module) -> None:
        self._reader = GpuReader(load, _NAMES)
        self.absent = self._reader.absent
        self.facts = self._reader.facts
        self.columns = [{name: MetricSeries(name, (), "gauge", name) for name in _NAMES} for _ in self.facts]

    def read(self) -> None:
        """Take one reading of each GPU; what one of them does not say is left out."""
        for index, columns in enumerate(self.columns):
            at_ns = time.perf_counter_ns()
            try:
                values = self._reader.read(index)
            except GpuLostError as lost:
                self.absent = "; ".join(filter(None, (self.absent, str(lost))))
                continue
            for name, value in values.items():
                columns[name].add(at_ns, value)

    def used_by(self, pids: set[int]) -> list[int]:
        """The GPUs on which one of these processes works."""
        return [
            index for index in range(self._reader.count) if any(pid in pids for pid, _ in self._reader.processes(index))
        ]


class ServiceSampler:
    """Everything that is read meanwhile."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.stop = threading.Event()
        self.absent: dict[str, str] = {}
        self.trees = [ServiceProcesses(source, pid) for source, pid in order["pids"].items()]
        self.gpus = GpuSeries() if order["gpus"] else None
        self.scrapers = [Scraper(endpoint, order["every_s"], self.stop) for endpoint in _endpoints(order, self.absent)]
        self._every_s = order["process_every_s"]
        self._threads = [threading.Thread(target=scraper.follow, daemon=True) for scraper in self.scrapers]
        if self.trees or (self.gpus and not self.gpus.absent):
            self._threads.append(threading.Thread(target=self._read_processes, daemon=True))
        for thread in self._threads:
            thread.start()

    def finish(self, window: Window, path: Path) -> dict[str, Any]:
        """Read once more, stop, write everything down, and sum up a window."""
        for scraper in self.scrapers:
            scraper.scrape()  # so that counters are known up to the end of the window
        self.stop.set()
        for thread in self._threads:
            thread.join(timeout=6.0)
        scraped = {reader.endpoint.source: reader.series() for reader in self.scrapers}
        rows = write(path, self._rows(scraped))
        return {
            "rows": rows,
            "server": {source: summarise(series, window) for source, series in scraped.items() if series},
            "processes": {tree.source: _process(tree, window) for tree in self.trees if tree.columns["cpu_s"].at_ns},
            "gpus": self._gpu_summary(window),
            "scrapes": {reader.endpoint.source: _scrapes(reader) for reader in self.scrapers},
            "absent": self._absent(scraped),
            "cpu_s": time.process_time(),
        }

    def _read_processes(self) -> None:
        due = time.monotonic()
        while not self.stop.is_set():
            for tree in self.trees:
                tree.read()
            if self.gpus is not None:
                self.gpus.read()
            due = max(due + self._every_s, time.monotonic())
            self.stop.wait(max(0.0, due - time.monotonic()))

    def _rows(self, scraped: Mapping[str, list[MetricSeries]]) -> Iterator[Rows]:
        for source, series in scraped.items():
            yield from (_row(source, metric) for metric in series)
        for tree in self.trees:
            yield from (_row(f"process:{tree.source}", metric) for metric in tree.columns.values())
        for number, columns in enumerate(self.gpus.columns if self.gpus else ()):
            yield from (_row(f"gpu:{number}", metric) for metric in columns.values())

    def _gpu_summary(self, window: Window) -> list[dict[str, Any]]:
        if self.gpus is None:
            return []
        pids = set().union(*(tree.pids for tree in self.trees))
        used = self.gpus.used_by(pids)
        return [
            {**facts, "used_by_service": facts["index"] in used, **_means(columns.values(), window)}
            for facts, columns in zip(self.gpus.facts, self.gpus.columns, strict=True)
        ]

    def _absent(self, scraped: Mapping[str, list[MetricSeries]]) -> dict[str, str]:
        reasons = dict(self.absent)
        for scraper in self.scrapers:
            if not scraped[scraper.endpoint.source]:
                reasons[f"server:{scraper.endpoint.source}"] = (
                    f"{scraper.last_error or 'no answer'} ({scraper.asked} scrapes)"
                )
        for tree in self.trees:
            if not tree.columns["cpu_s"].at_ns:
                reasons[f"process:{tree.source}"] = tree.gone or "no reading was taken"
        if self.gpus is not None and self.gpus.absent:
            reasons["gpus"] = self.gpus.absent
        return reasons


def _row(source: str, series: MetricSeries) -> Rows:
    labels = json.dumps(dict(series.labels), ensure_ascii=False) if series.labels else ""
    return source, series.name, labels, series.at_ns, series.value


def _endpoints(order: Mapping[str, Any], absent: dict[str, str]) -> Iterator[ScrapeEndpoint]:
    for source, url in order["scrapes"].items():
        try:
            headers = {name: resolve_secrets(value) for name, value in order["headers"].items()}
        except AssayError as missing:
            absent[f"server:{source}"] = missing.problem.message
        else:
            yield ScrapeEndpoint(source, url, headers, order["verify"], order["ca"], order["addresses"].get(source))


def _process(tree: ServiceProcesses, window: Window) -> dict[str, Any]:
    rate, rss = rate_per_s(tree.columns["cpu_s"], window), readings(tree.columns["rss_bytes"], window)
    summary: dict[str, Any] = {"rss_is": "the sum over its processes; pages that they share count for each"}
    summary |= {"cpu_pct": 100 * rate} if rate is not None else {}
    summary |= {"rss_mb_mean": math.fsum(rss) / len(rss) / 1e6, "rss_mb_max": max(rss) / 1e6} if rss else {}
    for name in ("threads", "processes"):
        if values := readings(tree.columns[name], window):
            summary[f"{name}_max"] = int(max(values))
    return summary


def _means(columns: Iterable[MetricSeries], window: Window) -> dict[str, float]:
    means: dict[str, float] = {}
    for column in columns:
        name, scale = (column.name, 1.0) if column.name != "gpu_mem_bytes" else ("gpu_mem_mb", 1e6)
        if values := readings(column, window):
            means |= {f"{name}_mean": math.fsum(values) / len(values) / scale, f"{name}_max": max(values) / scale}
    return means


def _scrapes(scraper: Scraper) -> dict[str, Any]:
    last_error = {"last_error": scraper.last_error} if scraper.failed else {}
    counts = {"url": scraper.endpoint.url, "asked": scraper.asked, "failed": scraper.failed}
    return {**counts, **last_error, "slowest_ms": scraper.slowest_ms()}


def main() -> int:
    """Sample until the window to sum up is given, or until the parent is gone."""
    watcher = ServiceSampler(order := json.loads(sys.stdin.readline()))
    answer({"ready": True})
    if line := sys.stdin.readline():
        begin, end = json.loads(line)
        answer(watcher.finish((begin, end), Path(order["path"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())

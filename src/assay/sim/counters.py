"""What the server did so far, as Prometheus text with the names that vLLM uses."""

from __future__ import annotations

import resource
from bisect import bisect_left
from time import process_time

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class CounterHistogram:
    """Counts of times by their length."""

    __slots__ = ("_counts", "_sum_ns")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_S) + 1)
        self._sum_ns = 0

    def add(self, time_ns: int) -> None:
        self._counts[bisect_left(_BOUNDS_S, time_ns / 1e9)] += 1
        self._sum_ns += time_ns

    def text(self, name: str, label: str) -> list[str]:
        lines, total = [], 0
        for bound, number in zip((*_BOUNDS_S, "+Inf"), self._counts, strict=True):
            total += number
            lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
        return [*lines, f"{name}_sum{{{label}}} {self._sum_ns / 1e9:.9g}", f"{name}_count{{{label}}} {total}"]


class Counters:
    """Sums since the server began; nothing resets them."""

    __slots__ = ("aborted", "backed_up", "ended", "faults", "generated", "prompted", "refused", "took", "waited")

    def __init__(self) -> None:
        self.generated = 0  # tokens
        self.prompted = 0  # tokens
        self.ended = {"stop": 0, "length": 0}
        self.aborted = 0
        self.faults = 0
        self.refused = 0
        self.backed_up = 0  # writes that a client did not take at once
        self.waited = CounterHistogram()  # to the first token
        self.took = CounterHistogram()  # to the end

    def text(self, model: str, running: int, waiting: int) -> str:
        """All of it in Prometheus' text format."""
        label = f'model_name="{model}"'
        values: list[tuple[str, str, str, list[str]]] = [
            _one("vllm:num_requests_running", "gauge", "Requests that are answered now.", label, running),
            _one("vllm:num_requests_waiting", "gauge", "Requests that wait for a slot.", label, waiting),
            _one("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", label, self.prompted),
            _one("vllm:generation_tokens_total", "counter", "Tokens written.", label, self.generated),
            (
                "vllm:request_success_total",
                "counter",
                "Answers that ended well.",
                [
                    f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {number}'
                    for reason, number in self.ended.items()
                ],
            ),
            (
                "vllm:time_to_first_token_seconds",
                "histogram",
                "Arrival to first token.",
                self.waited.text("vllm:time_to_first_token_seconds", label),
            ),
            (
                "vllm:e2e_request_latency_seconds",
                "histogram",
                "Arrival to last byte.",
                self.took.text("vllm:e2e_request_latency_seconds", label),
            ),
            _one("sim_aborted_total", "counter", "Answers that the client broke off.", label, self.aborted),
            _one("sim_faults_total", "counter", "Answers that failed on purpose.", label, self.faults),
            _one("sim_refused_total", "counter", "Requests that were wrong.", label, self.refused),
            _one("sim_backed_up_total", "counter", "Writes not taken at once.", label, self.backed_up),
            _one("process_cpu_seconds_total", "counter", "CPU time of the server.", "", process_time()),
            _one("process_resident_memory_bytes", "gauge", "Memory of the server.", "", resident_bytes()),
        ]
        lines: list[str] = []
        for name, kind, meaning, rows in values:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *rows]
        return "\n".join(lines) + "\n"


def _one(name: str, kind: str, meaning: str, label: str, value: float) -> tuple[str, str, str, list[str]]:
    labels = f"{{{label}}}" if label else ""
    return (
        name,
        kind,
        meaning,
        [f"{name}{labels} {value:.17g}" if isinstance(value, float) else f"{name}{labels} {value}"],
    )


def resident_bytes() -> int:
    """Memory of this process now, or its peak where the system tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123  (pathlib costs 20 ms of the start)
            return int(pages.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS

"""What the server did: a row per answer and per chunk (times of `time.perf_counter_ns`), and sums for Prometheus."""

from __future__ import annotations

import json
import resource
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from time import process_time

# How an answer ended; the position is the code in the `outcome` column.
OUTCOMES = ("ok", "fault", "refused", "aborted")
# Columns with one value per answer, in the order in which they are sent.
ROWS = (
    "number", "arrival_ns", "start_ns", "first_ns", "last_ns", "end_ns",
    "status", "tokens", "prompt_tokens", "outcome", "connection",
)  # fmt: skip
# Columns with one value per chunk that carried tokens.
CHUNKS = ("chunk_ns", "chunk_due_ns", "chunk_tokens")


class Records:
    """The columns. Rows are in the order in which answers ended."""

    def __init__(self) -> None:
        self.rows: dict[str, array[int]] = {name: array("q") for name in ROWS}
        self.chunks: dict[str, array[int]] = {name: array("q") for name in CHUNKS}
        self.bounds = array("q", (0,))
        # Bound once: this is done for every answer.
        self._append = tuple(column.append for column in self.rows.values())
        self._extend = tuple(column.extend for column in self.chunks.values())

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def add(self, row: Sequence[int], wrote_ns: Sequence[int], due_ns: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep one answer: a value for each of ROWS, and its chunks."""
        for append, value in zip(self._append, row, strict=True):
            append(value)
        wrote, due, carried = self._extend
        wrote(wrote_ns)
        due(due_ns)
        carried(tokens)
        self.bounds.append(len(self.chunks["chunk_ns"]))

    def binary(self) -> bytes:
        """A line of JSON that says what follows, then each column as 64-bit integers of this machine."""
        columns = {**self.rows, "chunks": self.bounds, **self.chunks}
        header = {"columns": {name: len(column) for name, column in columns.items()}, "outcomes": OUTCOMES}
        return b"".join([json.dumps(header).encode(), b"\n", *(column.tobytes() for column in columns.values())])

    def lines(self) -> Iterator[str]:
        for at in range(len(self)):
            row: dict[str, object] = {name: column[at] for name, column in self.rows.items()}
            row["id"] = request_id(self.rows["number"][at])
            row["outcome"] = OUTCOMES[self.rows["outcome"][at]]
            low, high = self.bounds[at], self.bounds[at + 1]
            row |= {name: list(column[low:high]) for name, column in self.chunks.items()}
            yield json.dumps(row, separators=(",", ":"))


def request_id(number: int) -> str:
    return f"sim-{number:012d}"


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

    __slots__ = ("backed_up", "ended", "failed", "generated", "prompted", "took", "waited")

    def __init__(self) -> None:
        self.generated = 0  # tokens
        self.prompted = 0  # tokens
        self.ended = {"stop": 0, "length": 0}
        self.failed = [0] * len(OUTCOMES)  # by the code of the outcome; those that are ok are counted in `ended`
        self.backed_up = 0  # writes that a client did not take immediately
        self.waited = CounterHistogram()  # to the first token
        self.took = CounterHistogram()  # to the end

    def outcomes(self) -> tuple[int, ...]:
        """How many answers ended in each way, as OUTCOMES lists them."""
        return (sum(self.ended.values()), *self.failed[1:])

    def text(self, model: str, running: int, waiting: int) -> str:
        """All of it in Prometheus' text format."""
        label = f'model_name="{model}"'
        _, faults, refused, aborted = self.outcomes()
        success, first = "vllm:request_success_total", "vllm:time_to_first_token_seconds"
        whole = "vllm:e2e_request_latency_seconds"
        reasons = [f'{success}{{{label},finished_reason="{reason}"}} {n}' for reason, n in self.ended.items()]
        values: list[tuple[str, str, str, list[str]]] = [
            _one("vllm:num_requests_running", "gauge", "Requests that are answered now.", label, running),
            _one("vllm:num_requests_waiting", "gauge", "Requests that wait for a slot.", label, waiting),
            _one("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", label, self.prompted),
            _one("vllm:generation_tokens_total", "counter", "Tokens written.", label, self.generated),
            (success, "counter", "Answers that ended well.", reasons),
            (first, "histogram", "Arrival to first token.", self.waited.text(first, label)),
            (whole, "histogram", "Arrival to last byte.", self.took.text(whole, label)),
            _one("sim_aborted_total", "counter", "Answers that the client broke off.", label, aborted),
            _one("sim_faults_total", "counter", "Answers that failed on purpose.", label, faults),
            _one("sim_refused_total", "counter", "Requests that were wrong.", label, refused),
            _one("sim_backed_up_total", "counter", "Writes not taken immediately.", label, self.backed_up),
            _one("process_cpu_seconds_total", "counter", "CPU time of the server.", "", process_time()),
            _one("process_resident_memory_bytes", "gauge", "Memory of the server.", "", resident_bytes()),
        ]
        lines: list[str] = []
        for name, kind, meaning, rows in values:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *rows]
        return "\n".join(lines) + "\n"


def _one(name: str, kind: str, meaning: str, label: str, value: float) -> tuple[str, str, str, list[str]]:
    labels = f"{{{label}}}" if label else ""
    shown = f"{value:.17g}" if isinstance(value, float) else value
    return name, kind, meaning, [f"{name}{labels} {shown}"]


def resident_bytes() -> int:
    """Memory of this process now, or its peak where the system tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123  (pathlib costs 20 ms of the start)
            return int(pages.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS

"""Series of a service's metrics, their summary over a window, and what well-known servers call what we measure."""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from assay.run.probes.columns import Window

SeriesKind = Literal["counter", "gauge", "histogram", "summary", "untyped"]
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class MetricSeries:
    """One number over time."""

    name: str
    labels: Labels
    kind: SeriesKind
    family: str
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))
    unseen_ns: int | None = None
    """The last time that its source was read without it; None if it was there from the beginning."""

    def add(self, at_ns: int, value: float) -> None:
        self.at_ns.append(at_ns)
        self.value.append(value)


@dataclass(frozen=True, slots=True)
class Span:
    """The readings that stand for a window: those inside it, or those around it where it is too short."""

    low: int
    high: int  # one past the last
    exact: bool
    """Whether all of them lie inside the window."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile read from a histogram: somewhere between two edges, by straight line where both are known."""

    value: float | None
    """None where it lies above the last edge."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """How much a histogram grew in a window."""

    count: float
    total: float
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    """Observations up to each edge."""

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count > 0 else None

    def quantile(self, share: float) -> Quantile | None:
        """A quantile; None without observations."""
        if self.count <= 0 or not self.edges:
            return None
        rank, low, below = share * self.count, min(0.0, self.edges[0]), 0.0
        for edge, upto in zip(self.edges, self.counts, strict=True):
            if upto >= rank and upto > below:
                if math.isinf(edge):
                    return Quantile(None, low, math.inf)
                value = low + (edge - low) * (rank - below) / (upto - below)
                return Quantile(min(value, edge), low, edge)  # rounding can carry it past the edge
            low, below = edge, max(below, upto)
        return Quantile(None, low, math.inf)


def span_of(at_ns: Sequence[int], window: Window) -> Span | None:
    """The readings that stand for a window; None if there is no reading at all."""
    low, high = bisect_left(at_ns, window[0]), bisect_right(at_ns, window[1])
    if high - low >= 2:
        return Span(low, high, exact=True)
    low, high = max(0, low - 1), min(len(at_ns), high + 1)
    return Span(low, high, exact=False) if high > low else None


def increase(values: Sequence[float]) -> float:
    """How much a counter grew; one that fell has begun again at zero."""
    total = 0.0
    for before, after in pairwise(values):
        total += after - before if after >= before else after
    return total


def growth(series: MetricSeries, window: Window) -> tuple[float, float] | None:
    """How much a counter grew in a window, and in how many seconds; None with fewer than two readings.

    A counter that appears while it is watched was at zero before: servers make some only when first needed.
    """
    at_ns, value = list(series.at_ns), list(series.value)
    if series.unseen_ns is not None:
        at_ns, value = [series.unseen_ns, *at_ns], [0.0, *value]
    span = span_of(at_ns, window)
    if span is None or span.high - span.low < 2:
        return None
    return increase(value[span.low : span.high]), (at_ns[span.high - 1] - at_ns[span.low]) / 1e9


def rate_per_s(series: MetricSeries, window: Window) -> float | None:
    """How fast a counter grew; None with fewer than two readings."""
    increase = growth(series, window)
    return increase[0] / increase[1] if increase and increase[1] > 0 else None


def grown(series: MetricSeries, window: Window) -> float:
    """How much a counter grew, zero where that is not known."""
    increase = growth(series, window)
    return increase[0] if increase else 0.0


def readings(series: MetricSeries, window: Window) -> list[float]:
    """The finite values that a gauge had inside a window, or next to it where there were none inside."""
    low, high = bisect_left(series.at_ns, window[0]), bisect_right(series.at_ns, window[1])
    if low == high and (span := span_of(series.at_ns, window)):
        low, high = span.low, span.high
    return [value for value in series.value[low:high] if math.isfinite(value)]


How = Literal["histogram", "rate", "mean", "ratio"]


@dataclass(frozen=True, slots=True)
class MetricAlias:
    """A metric of a server and the assay metric that it corresponds to."""

    metric: str
    name: str
    how: How
    """Quantiles of a histogram, growth per second of a counter, mean of a gauge, or growth over `per`'s growth."""
    scale: float = 1.0
    per: str = ""


def _seconds(metric: str, name: str) -> MetricAlias:
    return MetricAlias(metric, name, "histogram", 1e3)


def _of_vllm(prefix: str) -> tuple[MetricAlias, ...]:
    return (
        _seconds("ttft_ms", f"{prefix}:time_to_first_token_seconds"),
        _seconds("itl_ms", f"{prefix}:inter_token_latency_seconds"),
        _seconds(
            "itl_ms", f"{prefix}:time_per_output_token_seconds"
        ),  # its name before it was distinguished from the next
        _seconds("tpot_ms", f"{prefix}:request_time_per_output_token_seconds"),
        _seconds("e2e_ms", f"{prefix}:e2e_request_latency_seconds"),
        _seconds("queue_ms", f"{prefix}:request_queue_time_seconds"),
        _seconds("prefill_ms", f"{prefix}:request_prefill_time_seconds"),
        MetricAlias("output_tokens_per_s", f"{prefix}:generation_tokens_total", "rate"),
        MetricAlias("input_tokens_per_s", f"{prefix}:prompt_tokens_total", "rate"),
        MetricAlias("throughput_per_s", f"{prefix}:request_success_total", "rate"),
        MetricAlias("concurrency", f"{prefix}:num_requests_running", "mean"),
        MetricAlias("waiting", f"{prefix}:num_requests_waiting", "mean"),
        MetricAlias("cache_used_share", f"{prefix}:kv_cache_usage_perc", "mean"),
        MetricAlias("cache_used_share", f"{prefix}:gpu_cache_usage_perc", "mean"),
    )


# In the order of preference where a server tells one metric twice.
ALIASES: tuple[MetricAlias, ...] = (
    *_of_vllm("vllm"),
    *_of_vllm("sglang"),
    MetricAlias("throughput_per_s", "sglang:num_requests_total", "rate"),
    MetricAlias("concurrency", "sglang:num_running_reqs", "mean"),
    MetricAlias("waiting", "sglang:num_queue_reqs", "mean"),
    # Text Generation Inference
    _seconds("e2e_ms", "tgi_request_duration"),
    _seconds("queue_ms", "tgi_request_queue_duration"),
    _seconds("tpot_ms", "tgi_request_mean_time_per_token_duration"),
    MetricAlias("throughput_per_s", "tgi_request_success", "rate"),
    MetricAlias("output_tokens_per_s", "tgi_request_generated_tokens_sum", "rate"),
    MetricAlias("input_tokens_per_s", "tgi_request_input_length_sum", "rate"),
    MetricAlias("concurrency", "tgi_batch_current_size", "mean"),
    MetricAlias("waiting", "tgi_queue_size", "mean"),
    # Triton
    MetricAlias("ttft_ms", "nv_inference_first_response_histogram_ms", "histogram"),
    MetricAlias("service_ms", "nv_inference_request_duration_us", "ratio", 1e-3, "nv_inference_request_success"),
    MetricAlias("queue_ms", "nv_inference_queue_duration_us", "ratio", 1e-3, "nv_inference_request_success"),
    MetricAlias("throughput_per_s", "nv_inference_request_success", "rate"),
    MetricAlias("waiting", "nv_inference_pending_request_count", "mean"),
    # llama.cpp
    MetricAlias("output_tokens_per_s", "llamacpp:tokens_predicted_total", "rate"),
    MetricAlias("input_tokens_per_s", "llamacpp:prompt_tokens_total", "rate"),
    MetricAlias("tpot_ms", "llamacpp:tokens_predicted_seconds_total", "ratio", 1e3, "llamacpp:tokens_predicted_total"),
    MetricAlias("prefill_ms_per_token", "llamacpp:prompt_seconds_total", "ratio", 1e3, "llamacpp:prompt_tokens_total"),
    MetricAlias("concurrency", "llamacpp:requests_processing", "mean"),
    MetricAlias("waiting", "llamacpp:requests_deferred", "mean"),
    # Qdrant
    _seconds("service_ms", "rest_responses_duration_seconds"),
    MetricAlias("throughput_per_s", "rest_responses_total", "rate"),
)


# A server may have thousands of series; the file has them all, the result's record at most this many.
MOST = 200
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def summarise(series: Sequence[MetricSeries], window: Window) -> dict[str, Any]:
    """Everything that changed or was not zero in the window, and the server's view of what we measure ourselves."""
    families: dict[str, list[MetricSeries]] = {}
    for member in series:
        families.setdefault(member.family, []).append(member)
    summaries: dict[str, Any] = {}
    for name, members in sorted(families.items()):
        if not name.endswith("_created"):  # when a counter was made: no number of the window
            summaries |= _family(name, members, window)
    left_out = {"left_out": len(summaries) - MOST} if len(summaries) > MOST else {}
    return {
        "covers": _covers(series, window),
        "server_view": server_view(families, window),
        "series": dict(list(summaries.items())[:MOST]),
        **left_out,
    }


def server_view(families: Mapping[str, Sequence[MetricSeries]], window: Window) -> dict[str, dict[str, Any]]:
    """A statistic of assay, such as `ttft_ms.p50` → the server's own value, and what it was read from."""
    view: dict[str, dict[str, Any]] = {}
    for alias in ALIASES:
        for statistic, value in _server_values(alias, families, window).items():
            view.setdefault(f"{alias.metric}{statistic}", {**value, "from": alias.name})
    return view


def key_of(name: str, labels: Labels) -> str:
    """A series as Prometheus writes it."""
    inside = ",".join(f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in labels)
    return f"{name}{{{inside}}}" if inside else name


def _family(name: str, members: Sequence[MetricSeries], window: Window) -> dict[str, Any]:
    kind = members[0].kind
    if kind == "histogram":
        return _histograms(name, members, window)
    figures: dict[str, Any] = {}
    for member in members:
        is_counter = kind == "counter" or (kind == "untyped" and member.name.endswith("_total"))
        if is_counter or (kind == "summary" and member.name != name):
            rate = rate_per_s(member, window)
            figures |= {key_of(member.name, member.labels): {"per_s": rate}} if rate else {}
        elif values := readings(member, window):
            low, high = min(values), max(values)
            mean = math.fsum(values) / len(values)
            figures |= {key_of(member.name, member.labels): {"mean": mean, "max": high}} if low or high else {}
    return figures


def _histograms(name: str, members: Sequence[MetricSeries], window: Window) -> dict[str, Any]:
    by_labels: dict[Labels, list[MetricSeries]] = {}
    for member in members:
        by_labels.setdefault(tuple(pair for pair in member.labels if pair[0] != "le"), []).append(member)
    summaries: dict[str, Any] = {}
    for labels, group in by_labels.items():
        histogram = _histogram(name, group, window)
        if histogram is not None and histogram.count > 0:
            summaries[key_of(name, labels)] = {
                "count": histogram.count,
                "mean": histogram.mean,
                **_quantiles(histogram, 1.0),
            }
    return summaries


def _histogram(name: str, members: Iterable[MetricSeries], window: Window) -> Histogram | None:
    """How much a histogram grew in a window, several label sets added up; None where its last bucket has an end."""
    total, counts = 0.0, dict[float, float]()
    for series in members:
        if series.name == f"{name}_bucket" and (edge := _edge(series.labels)) is not None:
            counts[edge] = counts.get(edge, 0.0) + grown(series, window)
        elif series.name == f"{name}_sum":
            total += grown(series, window)
    edges = sorted(counts)
    if not edges or not math.isinf(edges[-1]):
        return None
    return Histogram(counts[edges[-1]], total, tuple(edges), tuple(counts[edge] for edge in edges))


def _edge(labels: Labels) -> float | None:
    try:
        return float(dict(labels)["le"])
    except (KeyError, ValueError):
        return None


def _quantiles(histogram: Histogram, scale: float) -> dict[str, dict[str, Any]]:
    """Quantiles with the edges of the bucket that each lies in; the upper one is None where there is none."""
    quantiles: dict[str, dict[str, Any]] = {}
    for name, share in SHARES.items():
        if (quantile := histogram.quantile(share)) is not None:
            # Of what is never below zero, no more than 1 - share can lie above this: a bucket may be far wider.
            most = math.inf if histogram.mean is None or histogram.edges[0] < 0 else histogram.mean / (1 - share)
            top = max(quantile.low, min(quantile.high, most))
            value = None if quantile.value is None else min(quantile.value, top) * scale
            quantiles[name] = {
                "value": value,
                "between": [quantile.low * scale, None if math.isinf(top) else top * scale],
            }
    return quantiles


def _server_values(
    alias: MetricAlias, families: Mapping[str, Sequence[MetricSeries]], window: Window
) -> dict[str, dict[str, Any]]:
    if alias.how == "histogram":
        histogram = _histogram(alias.name, families.get(alias.name, ()), window)
        if histogram is None or histogram.mean is None:
            return {}
        quantiles = {f".{name}": quantile for name, quantile in _quantiles(histogram, alias.scale).items()}
        return {".mean": {"value": histogram.mean * alias.scale, "count": histogram.count}, **quantiles}
    series = _named(families, alias.name)
    if alias.how == "mean":
        values = [value for member in series for value in readings(member, window)]
        return {".mean": {"value": alias.scale * math.fsum(values) / len(values)}} if values else {}
    if alias.how == "rate":
        rates = [rate for member in series if (rate := rate_per_s(member, window)) is not None]
        return {"": {"value": alias.scale * math.fsum(rates)}} if rates else {}
    below = sum(grown(member, window) for member in _named(families, alias.per))
    above = sum(grown(member, window) for member in series)
    return {".mean": {"value": alias.scale * above / below, "count": below}} if below > 0 else {}


def _named(families: Mapping[str, Sequence[MetricSeries]], name: str) -> list[MetricSeries]:
    return [member for member in families.get(name, families.get(name.removesuffix("_sum"), ())) if member.name == name]


def _covers(series: Sequence[MetricSeries], window: Window) -> dict[str, Any]:
    """Which stretch of time the numbers stand for, and whether all of it lies inside the window."""
    longest = max(series, key=lambda member: len(member.at_ns), default=None)
    span = span_of(longest.at_ns, window) if longest is not None else None
    if longest is None or span is None:
        return {"scrapes": 0}
    begin, end = longest.at_ns[span.low], longest.at_ns[span.high - 1]
    return {"scrapes": span.high - span.low, "seconds": (end - begin) / 1e9, "inside_window": span.exact}

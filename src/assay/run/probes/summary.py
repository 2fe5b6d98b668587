"""What the readings say about the measured window: rates of counters, means of gauges, quantiles of histograms."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.run.probes.known import KNOWN, Known
from assay.run.probes.prometheus import Labels
from assay.run.probes.series import Histogram, Series, Window, grown, histogram_of, rate_per_s, readings, span_of

# A server may tell thousands of series; the file has them all, the result's record only so many.
MOST = 200
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def summarise(series: Sequence[Series], window: Window) -> dict[str, Any]:
    """Everything that changed or was not zero in the window, and the server's view of what we measure ourselves."""
    families: dict[str, list[Series]] = {}
    for one in series:
        families.setdefault(one.family, []).append(one)
    told: dict[str, Any] = {}
    for name, members in sorted(families.items()):
        if not name.endswith("_created"):  # when a counter was made: no number of the window
            told |= _family(name, members, window)
    kept = dict(list(told.items())[:MOST])
    left_out = {"left_out": len(told) - len(kept)} if len(told) > len(kept) else {}
    return {"covers": _covers(series, window), "server_view": server_view(families, window), "series": kept, **left_out}


def server_view(families: Mapping[str, Sequence[Series]], window: Window) -> dict[str, dict[str, Any]]:
    """Statistic of ours, such as `ttft_ms.p50` → the server's own value, and what it was read from."""
    view: dict[str, dict[str, Any]] = {}
    for known in KNOWN:
        for statistic, told in _known(known, families, window).items():
            view.setdefault(f"{known.metric}{statistic}", {**told, "from": known.name})
    return view


def key_of(name: str, labels: Labels) -> str:
    """A series as Prometheus writes it."""
    inside = ",".join(f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in labels)
    return f"{name}{{{inside}}}" if inside else name


def _family(name: str, members: Sequence[Series], window: Window) -> dict[str, Any]:
    kind = members[0].kind
    if kind == "histogram":
        return _histograms(name, members, window)
    told: dict[str, Any] = {}
    for one in members:
        is_counter = kind == "counter" or (kind == "untyped" and one.name.endswith("_total"))
        if is_counter or (kind == "summary" and one.name != name):
            rate = rate_per_s(one, window)
            told |= {key_of(one.name, one.labels): {"per_s": rate}} if rate else {}
        elif values := readings(one, window):
            low, high = min(values), max(values)
            mean = math.fsum(values) / len(values)
            told |= {key_of(one.name, one.labels): {"mean": mean, "max": high}} if low or high else {}
    return told


def _histograms(name: str, members: Sequence[Series], window: Window) -> dict[str, Any]:
    by_labels: dict[Labels, list[Series]] = {}
    for one in members:
        by_labels.setdefault(tuple(pair for pair in one.labels if pair[0] != "le"), []).append(one)
    told: dict[str, Any] = {}
    for labels, group in by_labels.items():
        found = _histogram(name, group, window)
        if found is not None and found.count > 0:
            told[key_of(name, labels)] = {"count": found.count, "mean": found.mean, **_quantiles(found, 1.0)}
    return told


def _histogram(name: str, members: Iterable[Series], window: Window) -> Histogram | None:
    buckets: dict[float, list[Series]] = {}
    sums = []
    for one in members:
        if one.name == f"{name}_bucket" and (edge := _edge(one.labels)) is not None:
            buckets.setdefault(edge, []).append(one)
        elif one.name == f"{name}_sum":
            sums.append(one)
    return histogram_of(buckets, sums, window)


def _edge(labels: Labels) -> float | None:
    try:
        return float(dict(labels)["le"])
    except (KeyError, ValueError):
        return None


def _quantiles(found: Histogram, scale: float) -> dict[str, dict[str, Any]]:
    """Quantiles with the edges of the bucket that each lies in; the upper one is None where there is none."""
    told: dict[str, dict[str, Any]] = {}
    for name, share in SHARES.items():
        if (quantile := found.quantile(share)) is not None:
            # Of what is never below zero, no more than 1 - share can lie above this: a bucket may be far wider.
            most = math.inf if found.mean is None or found.edges[0] < 0 else found.mean / (1 - share)
            top = max(quantile.low, min(quantile.high, most))
            value = None if quantile.value is None else min(quantile.value, top) * scale
            told[name] = {"value": value, "between": [quantile.low * scale, None if math.isinf(top) else top * scale]}
    return told


def _known(known: Known, families: Mapping[str, Sequence[Series]], window: Window) -> dict[str, dict[str, Any]]:
    if known.how == "histogram":
        found = _histogram(known.name, families.get(known.name, ()), window)
        if found is None or found.mean is None:
            return {}
        quantiles = {f".{name}": told for name, told in _quantiles(found, known.scale).items()}
        return {".mean": {"value": found.mean * known.scale, "count": found.count}, **quantiles}
    series = _named(families, known.name)
    if known.how == "mean":
        values = [value for one in series for value in readings(one, window)]
        return {".mean": {"value": known.scale * math.fsum(values) / len(values)}} if values else {}
    if known.how == "rate":
        rates = [rate for one in series if (rate := rate_per_s(one, window)) is not None]
        return {"": {"value": known.scale * math.fsum(rates)}} if rates else {}
    below = sum(grown(one, window) for one in _named(families, known.per))
    above = sum(grown(one, window) for one in series)
    return {".mean": {"value": known.scale * above / below, "count": below}} if below > 0 else {}


def _named(families: Mapping[str, Sequence[Series]], name: str) -> list[Series]:
    return [one for one in families.get(name, families.get(name.removesuffix("_sum"), ())) if one.name == name]


def _covers(series: Sequence[Series], window: Window) -> dict[str, Any]:
    """Which stretch of time the numbers stand for, and whether all of it lies inside the window."""
    longest = max(series, key=lambda one: len(one.at_ns), default=None)
    span = span_of(longest.at_ns, window) if longest is not None else None
    if longest is None or span is None:
        return {"scrapes": 0}
    begin, end = longest.at_ns[span.low], longest.at_ns[span.high - 1]
    return {"scrapes": span.high - span.low, "seconds": (end - begin) / 1e9, "inside_window": span.exact}

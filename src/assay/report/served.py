"""What a load of requests gave, gathered once for every form of report: one line per job, and the facts beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from assay.analyse.headline import QUALITY
from assay.analyse.records import CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.analyse.text import run_name
from assay.report.numbers import NOTHING, decimals_of, show, show_percent
from assay.report.sheet import Sheet
from assay.report.wording import as_number, one_line, section, verdict_word

_SERVED = ("endpoint", "service", "library")
_MOST_KINDS = 12
# Stands below the server's view where one of its values is marked so.
BUCKETS_NOTE = (
    "~ is estimated inside a bucket of the server's histogram, whose edges follow; the true value is between them."
)
Cell = Callable[[MultiRunJobResult], str]
# A narrow terminal drops the last first: what a name implies, then what the table below has too.
_KEPT_LONGEST = (
    "job", "verdict", "capacity/s", "goodput/s", "ttft p50", "ttft p99", "itl p50", "itl p99", "latency p50",
    "latency p99", *sorted(QUALITY), "tokens/s", "requests/s", "errors", "load", "cost", "e2e p50",
)  # fmt: skip
LOAD_NOTE = (
    "Times in ms. p50 and p99 are of all samples of all runs; scores are means; the rest are medians of the runs."
)


@dataclass(frozen=True, slots=True)
class KindCount:
    """How often something happened, and the server's words the first time."""

    kind: str
    count: int
    first: str = ""

    @property
    def words(self) -> str:
        """The kind, with the message of the first one."""
        return f"{self.kind} ({self.first})" if self.first else self.kind


@dataclass(frozen=True, slots=True)
class ServerStatistic:
    """One statistic as we measured it and as the server itself tells it."""

    statistic: str
    ours: float | None
    theirs: float | None
    """None where the server only says that it is above the last edge of its histogram."""
    source: str
    between: tuple[float, float | None] | None = None
    """Edges of the bucket that it lies in, where it is read from a histogram; the upper one may be open."""

    @property
    def value(self) -> str:
        """The server's value, with its bucket where it is an estimate inside one."""
        if self.between is None:
            return show(self.theirs)
        low, high = self.between
        if self.theirs is None or high is None:
            return f"above {show(low)}"
        return show(self.theirs) if low == high else f"~{show(self.theirs)} ({show(low)}…{show(high)})"


def is_served(job: MultiRunJobResult) -> bool:
    """Whether a job loads something that answers requests."""
    target = section(job.definition, "target")
    return any(kind in target for kind in _SERVED)


def load_label(job: MultiRunJobResult) -> str:
    """The load of a job in a word or two: `4/s`, `16 concurrent`, `search`."""
    load = section(job.definition, "load")
    rate, stages = load.get("rate"), load.get("stages")
    hosts = load.get("hosts")
    if isinstance(rate, int | float) and isinstance(hosts, int) and load.get("host") is not None:
        rate = rate / hosts
    if rate is not None:
        return rate if isinstance(rate, str) else f"{rate:g}/s" if isinstance(rate, int | float) else NOTHING
    if load.get("trace"):
        return "trace"
    if isinstance(stages, list) and stages:
        return f"{len(stages)} stages"
    return f"{load.get('concurrency') or load.get('streams') or 1} concurrent"


def _of(metric: str, statistic: str) -> Cell:
    def cell(job: MultiRunJobResult) -> str:
        stats = job.metrics.get(metric)
        if stats is None:
            return ""
        value: float | None = getattr(stats, statistic)
        return show(value, decimals_of(stats)) if value is not None else NOTHING

    return cell


def _share(metric: str) -> Cell:
    def cell(job: MultiRunJobResult) -> str:
        stats = job.metrics.get(metric)
        return "" if stats is None else show_percent(stats.max)

    return cell


def _cost(job: MultiRunJobResult) -> str:
    stats = job.metrics.get("cost")
    currency = next((section(run.facts, "cost").get("currency") for run in job.runs if "cost" in run.facts), "")
    return "" if stats is None else f"{show(stats.median)} {currency}".rstrip()


# Speed first, then how good the answers were, then what went wrong and what it cost.
_COLUMNS: Mapping[str, Cell] = {
    "load": load_label,
    "capacity/s": _of("capacity_per_s", "median"),
    "goodput/s": _of("goodput_per_s", "median"),
    "requests/s": _of("throughput_per_s", "median"),
    "ttft p50": _of("ttft_ms", "p50"),
    "ttft p99": _of("ttft_ms", "p99"),
    "itl p50": _of("itl_ms", "p50"),
    "itl p99": _of("itl_ms", "p99"),
    "e2e p50": _of("e2e_ms", "p50"),
    "latency p50": _of("latency_ms", "p50"),
    "latency p99": _of("latency_ms", "p99"),
    "tokens/s": _of("output_tokens_per_s", "median"),
    **{name: _of(name, "mean") for name in sorted(QUALITY)},
    "errors": _share("error_rate"),
    "cost": _cost,
}


def load_sheet(record: CampaignRecord, labels: Mapping[str, str]) -> Sheet | None:
    """One line per job that loads something, with the columns that any of them has; None where there is no such job."""
    jobs = [job for job in record.jobs if job.state == "done" and is_served(job)]
    cells = {title: [cell(job) for job in jobs] for title, cell in _COLUMNS.items()}
    titles = [title for title, column in cells.items() if any(column)]
    if len(titles) < 2:
        return None
    rows = (
        (labels[job.job], *(cells[title][place] or NOTHING for title in titles), verdict_word(job))
        for place, job in enumerate(jobs)
    )
    head = ("job", *titles, "verdict")
    order = tuple(sorted(range(len(head)), key=lambda place: _KEPT_LONGEST.index(head[place])))
    last = len(head) - 1
    return Sheet(
        "Speed, quality and cost", head, tuple(rows), (LOAD_NOTE,), frozenset({0, 1, last}), order=order, verdict=last
    )


def errors_of(job: MultiRunJobResult) -> list[KindCount]:
    """Failed requests of all runs by kind, the most frequent first; what was skipped is one of them."""
    totals: dict[str, KindCount] = {}
    for run in job.runs:
        for kind, entry in section(run.facts, "errors").items():
            count = entry.get("count") if isinstance(entry, dict) else entry
            words = (entry.get("first") or entry.get("example") or "") if isinstance(entry, dict) else ""
            before = totals.get(kind, KindCount(kind, 0, one_line(str(words))))
            totals[kind] = KindCount(kind, before.count + (count if isinstance(count, int) else 0), before.first)
    skipped = sum(int(run.metrics.get("skipped", 0)) for run in job.runs)
    if skipped:
        totals["skipped"] = KindCount("skipped", skipped, "due while too many requests were open, and not sent")
    return sorted(totals.values(), key=lambda total: -total.count)[:_MOST_KINDS]


def finish_reasons_of(job: MultiRunJobResult) -> list[KindCount]:
    """Why answers ended, over all runs."""
    totals: dict[str, int] = {}
    for run in job.runs:
        for reason, count in section(run.facts, "finish_reasons").items():
            totals[reason] = totals.get(reason, 0) + (count if isinstance(count, int) else 0)
    ranked = sorted(totals.items(), key=lambda item: -item[1])[:_MOST_KINDS]
    return [KindCount(reason, count) for reason, count in ranked]


def token_facts_of(job: MultiRunJobResult) -> list[tuple[str, str]]:
    """Who counted tokens and how they arrived, each distinct fact once."""
    names = {
        "input": "input tokens counted by",
        "output": "output tokens counted by",
        "tokens_per_chunk": "tokens in a piece of an answer",
        "itl_ms_is": "itl_ms is",
        "first_chunk_tokens": "tokens in the first piece (median)",
        "tokenizer_disagrees": "two counts of the answers disagree",
        "tokenizer_disagrees_on_prompts": "two counts of the prompts disagree",
    }
    rows = [
        (names[key], _plain(value))
        for run in job.runs
        for key, value in section(run.facts, "tokens").items()
        if key in names
    ]
    by_name: dict[str, list[str]] = {}
    for name, text in rows:
        if text not in by_name.setdefault(name, []):
            by_name[name].append(text)
    return [(name, "; ".join(texts[:3])) for name, texts in by_name.items()]


def _plain(value: JsonValue) -> str:
    if isinstance(value, dict):
        inner = value.get("source", value) if len(value) == 1 else value
        if isinstance(inner, dict):
            return ", ".join(f"{key} {_plain(entry)}" for key, entry in inner.items())
        return _plain(inner)
    return one_line(f"{value:.4g}" if isinstance(value, float) else str(value))


def server_view_of(job: MultiRunJobResult) -> list[ServerStatistic]:
    """What the server says of the same window, beside our own numbers: the median over the runs."""
    seen: dict[str, list[Mapping[str, JsonValue]]] = {}
    for run in job.runs:
        for view in section(run.facts, "server_view").values():
            for statistic, entry in view.items() if isinstance(view, dict) else ():
                if isinstance(entry, dict) and (
                    as_number(entry.get("value")) is not None or _bucket(entry) is not None
                ):
                    seen.setdefault(statistic, []).append(entry)
    return [_view(job, statistic, entries) for statistic, entries in seen.items()]


def _view(job: MultiRunJobResult, statistic: str, entries: Sequence[Mapping[str, JsonValue]]) -> ServerStatistic:
    values = [value for entry in entries if (value := as_number(entry.get("value"))) is not None]
    buckets = [bucket for entry in entries if (bucket := _bucket(entry)) is not None]
    highs = [high for _, high in buckets]
    top = None if None in highs else max((high for high in highs if high is not None), default=None)
    return ServerStatistic(
        statistic,
        _ours(job.metrics, statistic),
        float(np.median(values)) if values else None,
        one_line(str(entries[0].get("from", ""))),
        (min(low for low, _ in buckets), top) if buckets else None,
    )


def _bucket(entry: Mapping[str, JsonValue]) -> tuple[float, float | None] | None:
    edges = entry.get("between")
    if not isinstance(edges, list) or len(edges) != 2 or (low := as_number(edges[0])) is None:
        return None
    return low, as_number(edges[1])


def _ours(metrics: Mapping[str, MetricStatistics], statistic: str) -> float | None:
    name, _, of = statistic.rpartition(".")
    stats = metrics.get(name or statistic)
    if stats is None:
        return None
    value = getattr(stats, of if name else "median", None)
    return float(value) if isinstance(value, int | float) else None


def searches_of(job: MultiRunJobResult) -> list[tuple[int, Mapping[str, JsonValue]]]:
    """The searches for a rate that the runs of a job made."""
    return [(run.run_id, search) for run in job.runs if (search := section(run.facts, "search"))]


def search_sentences(job: MultiRunJobResult) -> list[str]:
    """What each search found, as one line."""
    return [
        one_line(f"{run_name(run)}: {search.get('reason', 'no reason was recorded')}")
        for run, search in searches_of(job)
    ]


def series_of(jobs: Sequence[MultiRunJobResult], path: str) -> list[tuple[float, MultiRunJobResult]]:
    """The measured jobs of a matrix along one numeric path, in its order."""
    pairs = [(value, job) for job in jobs if job.state == "done" and _is_number(value := job.point.get(path))]
    return sorted(((float(value), job) for value, job in pairs), key=lambda pair: pair[0])  # type: ignore[arg-type]


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def grouped(jobs: Iterable[MultiRunJobResult], path: str) -> dict[str, list[MultiRunJobResult]]:
    """Jobs that differ in one path only, by what the others say; in the order in which they come."""
    groups: dict[str, list[MultiRunJobResult]] = {}
    for job in jobs:
        rest = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in job.point.items() if key != path)
        groups.setdefault(one_line(rest), []).append(job)
    return groups

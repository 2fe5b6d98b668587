"""Metrics that were scraped, in columns: one Parquet file, as it is kept with a run.

Columns: `name`, `labels` (JSON), `kind` (counter, gauge, histogram, summary; empty where nobody told), `at_ms` (the
clock of the day, UTC) and `value`. What was not scraped has no row: nothing is filled in.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from assay.errors import StoreError
from assay.store.samples import arrow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "metrics.parquet"
"""The name under which they are kept with a run."""
_ABOUT = b"assay.metrics"
_FORMAT = 1
_COLUMNS = ("name", "labels", "kind", "at_ms", "value")
_COUNTED = ("_total", "_bucket", "_count", "_sum")


@dataclass(frozen=True, slots=True, eq=False)
class Scraped:
    """One series."""

    name: str
    labels: Mapping[str, str]
    kind: str
    at_ms: NDArray[np.int64]
    """In order, each moment once."""
    value: NDArray[np.float64]

    @property
    def is_counter(self) -> bool:
        """Whether it counts up; by its name where its kind was not told."""
        if self.kind in ("histogram", "summary"):
            return self.name.endswith(_COUNTED)
        return self.kind == "counter" or (not self.kind and self.name.endswith(_COUNTED))


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """Everything that was scraped in a stretch of time."""

    series: tuple[Scraped, ...]
    interval_s: float
    """Time between two scrapes, as it was asked for."""
    begin_s: float
    """The stretch, on the clock of the day."""
    end_s: float
    phases: tuple[tuple[str, float, float], ...] = ()
    """Name, begin and end of each phase of the run, on the clock of the day, where they are known."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What could not be scraped, and why."""

    def named(self, *names: str) -> tuple[Scraped, ...]:
        """All series of some names."""
        return tuple(one for one in self.series if one.name in names)

    @property
    def measured(self) -> tuple[float, float] | None:
        """Begin and end of what was measured; None where that is not known."""
        ends = [(begin, end) for name, begin, end in self.phases if name == "measure"]
        return (ends[0][0], ends[-1][1]) if ends else None

    @property
    def scrapes(self) -> int:
        """How many scrapes there were, those that failed among them."""
        return sum(int(one.value.size) for one in self.named("up"))


def cut(metrics: Metrics, begin_s: float, end_s: float, keep: Callable[[Scraped], bool] = lambda _: True) -> Metrics:
    """The part of some metrics that lies in a stretch of time."""
    import numpy as np

    low, high = round(begin_s * 1e3), round(end_s * 1e3)
    found = []
    for one in metrics.series:
        first, last = np.searchsorted(one.at_ms, low, "left"), np.searchsorted(one.at_ms, high, "right")
        if last > first and keep(one):
            found.append(replace(one, at_ms=one.at_ms[first:last], value=one.value[first:last]))
    return replace(metrics, series=tuple(found), begin_s=begin_s, end_s=end_s)


def merged(parts: Sequence[Metrics]) -> Metrics:
    """Several stretches put together; a moment that two of them have is kept once."""
    import numpy as np

    rows: dict[tuple[str, str], list[Scraped]] = {}
    for part in parts:
        for one in part.series:
            rows.setdefault((one.name, _text(one.labels)), []).append(one)
    series = []
    for found in rows.values():
        at_ms, place = np.unique(np.concatenate([one.at_ms for one in found]), return_index=True)
        value = np.concatenate([one.value for one in found])[place]
        kind = next((one.kind for one in found if one.kind), "")
        series.append(Scraped(found[0].name, found[0].labels, kind, at_ms, value))
    notes = {name: why for part in parts for name, why in part.notes.items()}
    begin, end = min(part.begin_s for part in parts), max(part.end_s for part in parts)
    return Metrics(tuple(series), parts[0].interval_s, begin, end, notes=notes)


def encode(metrics: Metrics) -> bytes:
    """Write metrics as one Parquet table."""
    import numpy as np

    pa, pq = arrow()
    rows = sorted(metrics.series, key=lambda one: (one.name, _text(one.labels)))
    lengths = [int(one.value.size) for one in rows]

    def words(found: list[str]) -> Any:  # noqa: ANN401  (pyarrow is untyped)
        distinct = {word: code for code, word in enumerate(dict.fromkeys(found))}
        codes = np.repeat(np.array([distinct[word] for word in found], dtype=np.int32), lengths)
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(distinct), pa.string()))

    at_ms = np.concatenate([one.at_ms for one in rows]) if rows else np.empty(0, np.int64)
    value = np.concatenate([one.value for one in rows]) if rows else np.empty(0, np.float64)
    columns = {
        "name": words([one.name for one in rows]),
        "labels": words([_text(one.labels) for one in rows]),
        "kind": words([one.kind for one in rows]),
        "at_ms": pa.array(at_ms, pa.int64()),
        "value": pa.array(value, pa.float64()),
    }
    about = {
        "format": _FORMAT,
        "interval_s": metrics.interval_s,
        "begin_s": metrics.begin_s,
        "end_s": metrics.end_s,
        "phases": metrics.phases,
        "notes": dict(metrics.notes),
    }
    table = pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=["name", "labels", "kind", "value"],
        column_encoding={"at_ms": "DELTA_BINARY_PACKED"},
    )
    return bytes(sink.getvalue())


def decode(content: bytes) -> Metrics:
    """Read metrics back.

    Raises:
        StoreError: if the content is damaged, or something else.
    """
    pa, pq = arrow()
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        about = json.loads((table.schema.metadata or {})[_ABOUT])
        if about["format"] != _FORMAT or set(_COLUMNS) - set(table.column_names):
            raise _unreadable(f"its format is {about['format']}")
        phases = tuple((str(name), float(begin), float(end)) for name, begin, end in about["phases"])
        return Metrics(_series(table), about["interval_s"], about["begin_s"], about["end_s"], phases, about["notes"])
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as problem:
        raise _unreadable(f"{type(problem).__name__}: {problem}") from None


def _series(table: Any) -> tuple[Scraped, ...]:  # noqa: ANN401  (pyarrow is untyped)
    """The rows by series; those of one stand together."""
    import numpy as np

    coded = [table.column(name).combine_chunks() for name in _COLUMNS[:3]]
    coded = [one if hasattr(one, "dictionary") else one.dictionary_encode() for one in coded]
    words = [one.dictionary.to_pylist() for one in coded]
    codes = np.stack([one.indices.to_numpy(zero_copy_only=False) for one in coded]) if table.num_rows else None
    if codes is None:
        return ()
    at_ms, value = table.column("at_ms").to_numpy(), table.column("value").to_numpy()
    bounds = [0, *(np.flatnonzero((np.diff(codes) != 0).any(axis=0)) + 1).tolist(), table.num_rows]
    found = []
    for low, high in itertools.pairwise(bounds):
        name, labels, kind = (part[code[low]] for part, code in zip(words, codes, strict=True))
        found.append(Scraped(name, json.loads(labels), kind, at_ms[low:high], value[low:high]))
    return tuple(found)


def _text(labels: Mapping[str, str]) -> str:
    return json.dumps(dict(labels), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _unreadable(why: str) -> StoreError:
    return StoreError(
        f"the metrics cannot be read: {why}", code="metrics", try_="restore the file from a copy, or measure again"
    )

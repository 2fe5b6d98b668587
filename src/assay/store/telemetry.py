"""Telemetry of a run and metrics that were scraped, in columns: the Parquet files that are kept with a run."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

from assay.errors import StoreError
from assay.run.probes.columns import HEAD
from assay.store.samples import arrow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import JsonValue

PHASE = "phase"
"""The source whose rows say when a part of the run began (1) and ended (0)."""

# An hour of forty series at 10 Hz is some 80 MB of text; a packed file that unfolds to more was not written by us.
_MOST_BYTES = 512 * 2**20
FILE = "metrics.parquet"
"""The name under which they are kept with a run."""
_ABOUT = b"assay.metrics"
_FORMAT = 1
_COLUMNS = ("name", "labels", "kind", "at_ms", "value")
_COUNTED = ("_total", "_bucket", "_count", "_sum")


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One thing that was read again and again."""

    source: str
    """What was looked at: `job`, `others`, `machine`, `gpu:0`, `rapl:package-0`."""
    name: str
    """What was read, with its unit last: `power_w`."""
    at_ns: NDArray[np.int64]
    """When, of `time.perf_counter_ns`, in order."""
    value: NDArray[np.float64]
    labels: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run."""

    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Everything that was read during one run."""

    tracks: tuple[Track, ...]
    phases: tuple[Stretch, ...] = ()
    """The phases of the run in the order in which they began."""

    @property
    def sources(self) -> tuple[str, ...]:
        """What was looked at, in the order of the file."""
        return tuple(dict.fromkeys(track.source for track in self.tracks))

    def track(self, source: str, name: str) -> Track | None:
        return next((track for track in self.tracks if track.source == source and track.name == name), None)


def read_telemetry(content: bytes) -> Recording:
    """Read a file of telemetry, `machine.csv.gz` or `telemetry.csv.gz`, as it is kept with a run."""
    try:
        tracks = _tracks(_unpacked(content))
    except (OSError, EOFError, zlib.error, ValueError) as problem:
        raise _unreadable(f"{type(problem).__name__}: {problem}") from None
    measured = tuple(track for track in tracks if track.source != PHASE)
    return Recording(measured, _phases(tracks))


def _unpacked(content: bytes) -> bytes:
    """The text of a file, whose first line must be the one that we write."""
    with gzip.GzipFile(fileobj=BytesIO(content)) as packed:
        text = packed.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise _unreadable(f"it unfolds to more than {_MOST_BYTES / 1e6:.0f} MB")
    head = text.partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    if head != ",".join(HEAD):
        raise _unreadable(f"its columns are {head[:100] or 'missing'}, not {','.join(HEAD)}")
    return text


def _tracks(text: bytes) -> tuple[Track, ...]:
    """The rows of a file by source, name and labels, in the order in which these first come."""
    import numpy as np

    table = _table(text)
    names, codes = zip(*(_coded(table, column) for column in HEAD[:3]), strict=True)
    key = (codes[0] * len(names[1]) + codes[1]) * len(names[2]) + codes[2]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    at_ns, value = table.column("at_ns").to_numpy(), table.column("value").to_numpy()
    together = np.argsort(group, kind="stable")
    parts = np.split(together, np.cumsum(np.bincount(group))[:-1]) if len(first) else []
    tracks = []
    for row, rows in sorted(zip(first.tolist(), parts, strict=True), key=lambda pair: pair[0]):
        source, name, labels = (words[code[row]] for words, code in zip(names, codes, strict=True))
        tracks.append(_track(source, name, labels, at_ns[rows], value[rows]))
    return tuple(tracks)


def _table(text: bytes) -> Any:  # noqa: ANN401  (pyarrow is untyped)
    """All rows as columns. Arrow reads them ten times as fast as the csv module, and a run may have a million."""
    pa, _ = arrow()
    from pyarrow import csv

    words = pa.dictionary(pa.int32(), pa.string())
    kinds = {**dict.fromkeys(HEAD[:3], words), "at_ns": pa.int64(), "value": pa.float64()}
    return csv.read_csv(
        pa.BufferReader(text),
        read_options=csv.ReadOptions(use_threads=False, block_size=4 * 2**20),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=kinds, null_values=[]),
    )


def _coded(table: Any, column: str) -> tuple[list[str], NDArray[np.int64]]:  # noqa: ANN401
    """The distinct words of a column, and for each row which of them it has."""
    import numpy as np

    coded = table.column(column).combine_chunks()
    coded = coded if hasattr(coded, "dictionary") else coded.chunk(0) if coded.num_chunks else None
    if coded is None:
        return [], np.empty(0, dtype=np.int64)
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _track(source: str, name: str, labels: str, at_ns: NDArray[np.int64], value: NDArray[np.float64]) -> Track:
    import numpy as np

    if (np.diff(at_ns) < 0).any():
        order = np.argsort(at_ns, kind="stable")
        at_ns, value = at_ns[order], value[order]
    parsed = json.loads(labels) if labels else {}
    return Track(source, name, at_ns, value, parsed if isinstance(parsed, dict) else {})


def _phases(tracks: tuple[Track, ...]) -> tuple[Stretch, ...]:
    """The phases from their marks; one that was never ended lasts until the last reading."""
    last = max((int(track.at_ns[-1]) for track in tracks if track.at_ns.size), default=0)
    stretches: list[Stretch] = []
    for track in tracks:
        if track.source != PHASE:
            continue
        begun: int | None = None
        for at, value in zip(track.at_ns.tolist(), track.value.tolist(), strict=True):
            if value:
                begun = at if begun is None else begun
            elif begun is not None:
                stretches.append(Stretch(track.name, begun, at))
                begun = None
        if begun is not None:
            stretches.append(Stretch(track.name, begun, last))
    return tuple(sorted(stretches, key=lambda stretch: stretch.begin_ns))


def _unreadable(why: str, what: str = "telemetry") -> StoreError:
    return StoreError(
        f"the {what} cannot be read: {why}", code=what, try_="restore the file from a copy, or measure again"
    )


@dataclass(frozen=True, slots=True, eq=False)
class ScrapedSeries:
    """One series."""

    name: str
    labels: Mapping[str, str]
    kind: str
    at_ms: NDArray[np.int64]
    """In order, each moment once."""
    value: NDArray[np.float64]

    @property
    def is_counter(self) -> bool:
        """Whether it counts up; by its name where its kind is unknown."""
        if self.kind in ("histogram", "summary"):
            return self.name.endswith(_COUNTED)
        return self.kind == "counter" or (not self.kind and self.name.endswith(_COUNTED))


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    series: tuple[ScrapedSeries, ...]
    interval_s: float
    """Time between two scrapes, as it was asked for."""
    begin_s: float
    """The stretch, on the clock of the day."""
    end_s: float
    phases: tuple[tuple[str, float, float], ...] = ()
    """Name, begin and end of each phase of the run, on the clock of the day, where they are known."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What could not be scraped, and why."""

    def named(self, *names: str) -> tuple[ScrapedSeries, ...]:
        return tuple(series for series in self.series if series.name in names)

    @property
    def measured(self) -> tuple[float, float] | None:
        """Begin and end of what was measured; None where that is not known."""
        ends = [(begin, end) for name, begin, end in self.phases if name == "measure"]
        return (ends[0][0], ends[-1][1]) if ends else None

    @property
    def scrapes(self) -> int:
        """How many scrapes there were, those that failed among them."""
        return sum(int(series.value.size) for series in self.named("up"))


def cut(
    metrics: Metrics, begin_s: float, end_s: float, keep: Callable[[ScrapedSeries], bool] = lambda _: True
) -> Metrics:
    """The part of some metrics that lies in a stretch of time."""
    import numpy as np

    low, high = round(begin_s * 1e3), round(end_s * 1e3)
    chosen = []
    for series in metrics.series:
        first, last = np.searchsorted(series.at_ms, low, "left"), np.searchsorted(series.at_ms, high, "right")
        if last > first and keep(series):
            chosen.append(replace(series, at_ms=series.at_ms[first:last], value=series.value[first:last]))
    return replace(metrics, series=tuple(chosen), begin_s=begin_s, end_s=end_s)


def merged(parts: Sequence[Metrics]) -> Metrics:
    """Several stretches put together; a moment that two of them have is kept once."""
    import numpy as np

    rows: dict[tuple[str, str], list[ScrapedSeries]] = {}
    for part in parts:
        for scraped in part.series:
            rows.setdefault((scraped.name, _text(scraped.labels)), []).append(scraped)
    series = []
    for pieces in rows.values():
        at_ms, place = np.unique(np.concatenate([piece.at_ms for piece in pieces]), return_index=True)
        value = np.concatenate([piece.value for piece in pieces])[place]
        kind = next((piece.kind for piece in pieces if piece.kind), "")
        series.append(ScrapedSeries(pieces[0].name, pieces[0].labels, kind, at_ms, value))
    notes = {name: why for part in parts for name, why in part.notes.items()}
    begin, end = min(part.begin_s for part in parts), max(part.end_s for part in parts)
    return Metrics(tuple(series), parts[0].interval_s, begin, end, notes=notes)


def encode(metrics: Metrics) -> bytes:
    import numpy as np

    pa, pq = arrow()
    rows = sorted(metrics.series, key=lambda series: (series.name, _text(series.labels)))
    lengths = [int(series.value.size) for series in rows]

    def words(texts: list[str]) -> Any:  # noqa: ANN401  (pyarrow is untyped)
        distinct = {word: code for code, word in enumerate(dict.fromkeys(texts))}
        codes = np.repeat(np.array([distinct[word] for word in texts], dtype=np.int32), lengths)
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(distinct), pa.string()))

    at_ms = np.concatenate([series.at_ms for series in rows]) if rows else np.empty(0, np.int64)
    value = np.concatenate([series.value for series in rows]) if rows else np.empty(0, np.float64)
    columns = {
        "name": words([series.name for series in rows]),
        "labels": words([_text(series.labels) for series in rows]),
        "kind": words([series.kind for series in rows]),
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
    pa, pq = arrow()
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        about = json.loads((table.schema.metadata or {})[_ABOUT])
        if about["format"] != _FORMAT or set(_COLUMNS) - set(table.column_names):
            raise _unreadable(f"its format is {about['format']}", "metrics")
        phases = tuple((str(name), float(begin), float(end)) for name, begin, end in about["phases"])
        return Metrics(_series(table), about["interval_s"], about["begin_s"], about["end_s"], phases, about["notes"])
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as problem:
        raise _unreadable(f"{type(problem).__name__}: {problem}", "metrics") from None


def _series(table: Any) -> tuple[ScrapedSeries, ...]:  # noqa: ANN401  (pyarrow is untyped)
    """The rows by series; those of one stand together."""
    import numpy as np

    coded = [table.column(name).combine_chunks() for name in _COLUMNS[:3]]
    coded = [column if hasattr(column, "dictionary") else column.dictionary_encode() for column in coded]
    words = [column.dictionary.to_pylist() for column in coded]
    codes = np.stack([column.indices.to_numpy(zero_copy_only=False) for column in coded]) if table.num_rows else None
    if codes is None:
        return ()
    at_ms, value = table.column("at_ms").to_numpy(), table.column("value").to_numpy()
    bounds = [0, *(np.flatnonzero((np.diff(codes) != 0).any(axis=0)) + 1).tolist(), table.num_rows]
    series = []
    for low, high in itertools.pairwise(bounds):
        name, labels, kind = (part[code[low]] for part, code in zip(words, codes, strict=True))
        series.append(ScrapedSeries(name, json.loads(labels), kind, at_ms[low:high], value[low:high]))
    return tuple(series)


def _text(labels: Mapping[str, str]) -> str:
    return json.dumps(dict(labels), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

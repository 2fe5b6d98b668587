"""Telemetry read back into columns: what another process saw of a run, from the file that was kept with it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Everything that was read while one run went on."""

    tracks: tuple[Track, ...]
    phases: tuple[Stretch, ...] = ()
    """The phases of the run in the order in which they began."""

    @property
    def sources(self) -> tuple[str, ...]:
        """What was looked at, in the order of the file."""
        return tuple(dict.fromkeys(track.source for track in self.tracks))

    def track(self, source: str, name: str) -> Track | None:
        return next((one for one in self.tracks if one.source == source and one.name == name), None)


def read_telemetry(content: bytes) -> Recording:
    """Read a file of telemetry, `machine.csv.gz` or `telemetry.csv.gz`, as it is kept with a run.

    Raises:
        StoreError: if it is damaged, or something else.
    """
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
    told = json.loads(labels) if labels else {}
    return Track(source, name, at_ns, value, told if isinstance(told, dict) else {})


def _phases(tracks: tuple[Track, ...]) -> tuple[Stretch, ...]:
    """The phases from their marks; one that was never ended lasts until the last reading."""
    last = max((int(track.at_ns[-1]) for track in tracks if track.at_ns.size), default=0)
    found: list[Stretch] = []
    for track in tracks:
        if track.source != PHASE:
            continue
        begun: int | None = None
        for at, value in zip(track.at_ns.tolist(), track.value.tolist(), strict=True):
            if value:
                begun = at if begun is None else begun
            elif begun is not None:
                found.append(Stretch(track.name, begun, at))
                begun = None
        if begun is not None:
            found.append(Stretch(track.name, begun, last))
    return tuple(sorted(found, key=lambda one: one.begin_ns))


def _unreadable(why: str) -> StoreError:
    return StoreError(
        f"the telemetry cannot be read: {why}", code="telemetry", try_="restore the file from a copy, or measure again"
    )

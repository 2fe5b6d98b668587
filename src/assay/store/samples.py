"""Samples in columns: one Parquet file per run, named by the hash of its content."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from assay import files
from assay.errors import StoreError, UsageError
from assay.run.records import SamplePhase, SampleSet
from assay.store.artefacts import ContentFiles, checked_digest
from assay.store.location import cannot_write
from assay.store.objects.backing import Kind

if TYPE_CHECKING:
    import numpy as np

# How a Parquet file begins and ends.
_MAGIC = b"PAR1"
# Smaller than the library's own choice: a writer holds a page of each column, and files come out the same size.
_PAGE_BYTES = 64 * 2**10
_POOL = "ARROW_DEFAULT_MEMORY_POOL"
# How many samples one file may hold by default: decoded, that is about half a gigabyte.
MOST_SAMPLES = 10_000_000
_LARGEST_DECODED = 2 * 2**30
_MOST_ROW_GROUPS = 10_000
_COLUMNS = {"metric": ("string", "text"), "phase": ("string", "text"), "sample": ("int64", "whole numbers"),
            "at_ns": ("int64", "whole numbers"), "value": ("double", "numbers")}  # fmt: skip


class SampleFiles(ContentFiles):
    """Sample files by content hash."""

    kind: ClassVar[Kind] = "samples"
    suffix: ClassVar[str] = ".parquet"

    def write(self, samples: Iterable[SampleSet]) -> str | None:
        """Keep samples; return their content hash, or None when there are none."""
        sets = tuple(samples)
        if not sets:
            return None
        content = encode(sets)
        digest = hashlib.sha256(content).hexdigest()
        path = self.path(digest)
        if not path.exists():
            self.expect(digest)
            write_whole(path, content)
        return digest

    def accept(self, source: bytes | Path, digest: str, *, verified: bool = False) -> Path:
        """Keep samples that came from elsewhere as a Parquet file.

        Args:
            source: the content, or a file that has it. A file is shared rather than copied where the system can.
        """
        path = self.path(checked_digest(digest))
        if path.exists():
            return path
        content = source if isinstance(source, bytes) else None if verified else _content(source)
        if content is not None and hashlib.sha256(content).hexdigest() != digest:
            raise UsageError(f"the samples do not have the SHA-256 {digest}", code="mismatch", try_="send them again")
        ends = (content[:4], content[-4:]) if content is not None else _ends(cast("Path", source))
        if ends != (_MAGIC, _MAGIC):
            raise UsageError(f"the samples {digest} are not a Parquet file", code="samples", at="samples")
        self.expect(digest)
        if isinstance(source, Path):
            _share(source, path)
        else:
            write_whole(path, source)
        return path

    def adopt(self, digest: str, upload: Path) -> None:
        """Take an uploaded file as samples: moved where it can be, else copied whole."""
        place = self.path(digest)
        self.expect(digest)
        try:
            files.move_whole(upload, place)
        except OSError:  # another file system: copied whole, then named
            if place.is_file() and not upload.is_file():
                return  # another delivery of the same content was quicker
            write_whole(place, _content(upload))
            upload.unlink(missing_ok=True)

    def read(self, digest: str) -> tuple[SampleSet, ...]:
        """Read samples back; a copy here that is damaged is replaced by the one of the object store."""
        if self.backing is not None:
            self.find(digest)
        path = self.path(digest)
        content = _content(path)
        if hashlib.sha256(content).hexdigest() != digest:
            if not self.fetch(digest):
                raise StoreError(
                    "the sample file is damaged: its content does not match its name",
                    code="samples",
                    at=str(path),
                    try_="restore it from a copy, or measure again",
                )
            content = _content(path)
        return _decoded(content, path)


def check_samples(path: Path, digest: str, most: int = MOST_SAMPLES) -> None:
    """Make sure that a file holds samples, and no more than can be read; only its description is read for that."""
    pa, pq = arrow()
    try:
        with pq.ParquetFile(path) as file:
            lacking = _lacking(file.schema_arrow)
            rows, size = _size(file.metadata)
    except (pa.ArrowException, OSError, ValueError, TypeError) as problem:
        lacking, rows, size = f"it is not a Parquet file ({type(problem).__name__})", 0, 0
    if not lacking and rows > most:
        lacking = f"it holds {rows:,} samples, and at most {most:,} are allowed"
    if not lacking and size > _LARGEST_DECODED:
        lacking = f"it holds {size:,} bytes, and at most {_LARGEST_DECODED:,} are allowed"
    if lacking:
        raise UsageError(
            f"the samples {digest} cannot be taken: {lacking}",
            code="sample-file",
            try_="send samples as assay writes them; a server takes more with --max-samples",
        )


def _lacking(schema: Any) -> str:  # noqa: ANN401  (pyarrow is untyped)
    for name, (kind, words) in _COLUMNS.items():
        index = schema.get_field_index(name)
        column_type = None if index < 0 else schema.field(index).type
        column_type = (
            getattr(column_type, "value_type", column_type) if "dictionary" in str(column_type) else column_type
        )
        if column_type is None or str(column_type) != kind:
            return f"it has no column {name!r} of {words}"
    return ""


def _size(described: Any) -> tuple[int, int]:  # noqa: ANN401
    """Rows and decoded bytes, as every part of the file describes itself."""
    if described.num_row_groups > _MOST_ROW_GROUPS:
        raise ValueError("it is cut into too many pieces")
    groups = [described.row_group(index) for index in range(described.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    rows = max(described.num_rows, sum(group.num_rows for group in groups))
    values = max(
        (sum(group.column(index).num_values for group in groups) for index in range(described.num_columns)), default=0
    )
    return max(rows, values), sum(column.total_uncompressed_size for column in columns)


def _decoded(content: bytes, path: Path) -> tuple[SampleSet, ...]:
    pa, _ = arrow()
    try:
        sets, why = decode(content), "its columns are not numbers"
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as problem:
        sets, why = None, type(problem).__name__
    if sets is None or any(
        sample_set.value.dtype.kind not in "fiu" or sample_set.at_ns.dtype.kind != "i" for sample_set in sets
    ):
        raise StoreError(f"the sample file cannot be read: {why}", code="samples", at=str(path), try_="measure again")
    return sets


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise StoreError(f"cannot read samples: {problem.strerror}", code="samples", at=str(path)) from None


def _content(path: Path) -> bytes:
    with _readable(path):
        return path.read_bytes()


def _ends(path: Path) -> tuple[bytes, bytes]:
    with _readable(path), path.open("rb") as file:
        first = file.read(4)
        file.seek(max(0, path.stat().st_size - 4))
        return first, file.read(4)


def _share(source: Path, path: Path) -> None:
    """Give a file a second name; copy it where the file system has no second names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.hardlink_to(source)
        files.sync_folder(path.parent)
    except FileExistsError:
        return  # another process was quicker: the same content
    except OSError:
        write_whole(path, _content(source))


def encode(sets: tuple[SampleSet, ...]) -> memoryview:
    """Write sample sets as one Parquet table; nothing is copied but what the file holds."""
    import numpy as np

    pa, pq = arrow()
    numbers = np.arange(max(len(sample_set.value) for sample_set in sets), dtype=np.int64)
    # Chunk by chunk: joined into one array each, a million requests would be in memory twice.
    codes = [np.full(len(sample_set.value), index, dtype=np.int32) for index, sample_set in enumerate(sets)]

    def words(names: list[str]) -> Any:  # noqa: ANN401  (pyarrow is untyped)
        distinct = pa.array(names)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(code, distinct) for code in codes])

    table = pa.table(
        {
            "metric": words([sample_set.metric for sample_set in sets]),
            "phase": words([sample_set.phase for sample_set in sets]),
            "sample": pa.chunked_array([numbers[: len(sample_set.value)] for sample_set in sets]),
            "at_ns": pa.chunked_array([sample_set.at_ns for sample_set in sets]),
            "value": pa.chunked_array([sample_set.value for sample_set in sets]),
        }
    )
    sink = pa.BufferOutputStream()
    # Times rise steadily, so their differences are small numbers: delta coding shrinks them several times.
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=["metric", "phase"],
        data_page_size=_PAGE_BYTES,
        column_encoding={"sample": "DELTA_BINARY_PACKED", "at_ns": "DELTA_BINARY_PACKED"},
    )
    return memoryview(sink.getvalue())


def decode(content: bytes | memoryview) -> tuple[SampleSet, ...]:
    """Read sample sets from a Parquet table."""
    import numpy as np

    pa, pq = arrow()
    # In this thread: the library's own threads now and then abort a process that ends soon after, and are no faster.
    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    metric, phase = (_names(table, name) for name in ("metric", "phase"))
    at_ns = table.column("at_ns").to_numpy()
    value = table.column("value").to_numpy()
    # Rows of one set stand together: a set ends where metric or phase changes.
    cuts = np.flatnonzero((metric[1:] != metric[:-1]) | (phase[1:] != phase[:-1])) + 1
    bounds = [0, *cuts.tolist(), len(value)]
    return tuple(
        SampleSet(str(metric[low]), cast("SamplePhase", str(phase[low])), at_ns[low:high], value[low:high])
        for low, high in itertools.pairwise(bounds)
        if high > low
    )


def arrow() -> tuple[Any, Any]:
    """Arrow and its Parquet, loaded where samples are first kept or read.

    Its own allocator takes and keeps some 15 MB more than the system's for what a run leaves. It looks at its setting
    once, as it begins; programs that this process starts later do not inherit it.
    """
    chosen = os.environ.get(_POOL)
    os.environ[_POOL] = chosen or "system"
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pa.default_memory_pool()
    finally:
        if chosen is None:
            del os.environ[_POOL]
    return pa, pq


def _names(table: Any, column: str) -> np.ndarray[Any, Any]:  # noqa: ANN401  (pyarrow is untyped)
    import numpy as np

    coded = table.column(column).combine_chunks()
    coded = coded if hasattr(coded, "dictionary") else coded.dictionary_encode()
    names: np.ndarray[Any, Any] = np.array(coded.dictionary.to_pylist(), dtype=object)
    return cast("np.ndarray[Any, Any]", names[coded.indices.to_numpy()])


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that it is either there whole or not at all, also when the power goes."""
    try:
        files.write_whole(path, content)
    except OSError as problem:
        raise cannot_write(problem, path) from None

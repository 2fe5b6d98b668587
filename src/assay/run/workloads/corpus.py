"""Vectors in groups, made from a seed: bit for bit the same on every machine, block by block in bounded memory.

Every value is a sum of small integers from the bit stream of PCG64, scaled and added in single precision. The stream is
promised by numpy for good, and no step of this depends on a mathematics library or on the order of a sum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assay.spec.workload import Corpus, Workload

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# Raised when the same section of a file gives other vectors than before.
LAW = 1
# Values in a block: 8 MiB of single precision. Part of the law: a block has a bit stream of its own.
BLOCK_VALUES = 2**21
# Four 16-bit integers added have this standard deviation; their sum is close to normal.
_MEAN, _STD = 2 * 65_535, 37_837.227
_CENTRES, _VECTORS, _QUERIES = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some vectors in a row."""

    first: int
    """Number of the first one."""
    vectors: Floats
    tags: NDArray[np.int32]
    """1 for a vector that the filter leaves, 0 for the others."""

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class VectorSet:
    """The vectors of a `knn` workload and its queries.

    A vector is the centre of a group, chosen at random, plus noise; `spread` is the distance between two vectors of
    one group beside that between two groups. Queries follow the same law and are not in the corpus.
    """

    corpus: Corpus
    seed: int
    asked: int
    """Different queries."""
    share: float | None = None
    """Share of the vectors that the filter leaves; None without a filter."""

    @property
    def rows(self) -> int:
        return max(1, BLOCK_VALUES // self.corpus.dims)

    @property
    def left(self) -> int:
        """Vectors that the filter leaves: all of them without one."""
        return self.corpus.vectors if self.share is None else max(1, round(self.share * self.corpus.vectors))

    def blocks(self) -> Iterator[Block]:
        for number in range(-(-self.corpus.vectors // self.rows)):
            yield self._block(number)

    def passes(self, numbers: Integers) -> NDArray[np.bool_]:
        """Whether the filter leaves each of these vectors: it takes them evenly, and groups fall at random."""
        if self.share is None:
            return np.ones(len(numbers), dtype=np.bool_)
        passing: NDArray[np.bool_] = (numbers + 1) * self.left // self.corpus.vectors > (
            numbers * self.left // self.corpus.vectors
        )
        return passing

    def take(self, numbers: Integers) -> Floats:
        vectors = np.empty((len(numbers), self.corpus.dims), dtype=np.float32)
        for number in np.unique(numbers // self.rows):
            here = np.flatnonzero(numbers // self.rows == number)
            vectors[here] = self._block(int(number)).vectors[numbers[here] - number * self.rows]
        return vectors

    @cached_property
    def queries(self) -> Floats:
        parts = [
            self._make(_QUERIES, number, min(self.rows, self.asked - first))
            for number, first in enumerate(range(0, self.asked, self.rows))
        ]
        return np.concatenate(parts)

    @property
    def key(self) -> str:
        """What these vectors and queries are recognised by, before any is made."""
        meaning = {"law": LAW, "seed": self.seed, "queries": self.asked, "share": self.share}
        text = json.dumps({**self.corpus.model_dump(mode="json"), **meaning}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _centres(self) -> Floats:
        return _noise(self._stream(_CENTRES, 0), min(self.corpus.clusters, self.corpus.vectors), self.corpus.dims)

    def _block(self, number: int) -> Block:
        first = number * self.rows
        count = min(self.rows, self.corpus.vectors - first)
        numbers = np.arange(first, first + count, dtype=np.int64)
        return Block(first, self._make(_VECTORS, number, count), self.passes(numbers).astype(np.int32))

    def _make(self, kind: int, number: int, count: int) -> Floats:
        stream = self._stream(kind, number)
        groups = stream.random_raw(count) % np.uint64(len(self._centres))
        vectors = _noise(stream, count, self.corpus.dims)
        # In two steps on purpose: a fused multiply-add would round otherwise on some machines.
        vectors *= np.float32(self.corpus.spread)
        vectors += self._centres[groups.astype(np.int64)]
        return vectors

    def _stream(self, kind: int, number: int) -> np.random.PCG64:
        return np.random.PCG64(np.random.SeedSequence([self.seed % 2**64, kind, number]))


def vector_set(workload: Workload) -> VectorSet:
    """The vectors and queries that a workload asks for."""
    return VectorSet(workload.corpus, workload.seed, workload.queries, workload.filter)


def digest(vectors: VectorSet) -> str:
    """SHA-256 of all vectors, their tags and the queries, as little-endian bytes."""
    held = hashlib.sha256()
    for block in vectors.blocks():
        held.update(block.vectors.astype("<f4", copy=False).tobytes())
        held.update(block.tags.astype("<i4", copy=False).tobytes())
    held.update(vectors.queries.astype("<f4", copy=False).tobytes())
    return held.hexdigest()


def _noise(stream: np.random.PCG64, rows: int, dims: int) -> Floats:
    """Close to normal values of mean 0 and deviation 1."""
    quarters = stream.random_raw(rows * dims).view(np.uint16).reshape(-1, 4)
    total = quarters[:, 0].astype(np.int32)
    for column in (1, 2, 3):
        total += quarters[:, column]
    total -= _MEAN
    values: Floats = total.astype(np.float32)
    values *= np.float32(1 / _STD)
    return values.reshape(rows, dims)

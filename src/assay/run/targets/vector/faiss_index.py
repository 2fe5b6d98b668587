"""FAISS inside this process: the reference that has no network and no server."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.targets.vector.collection import LibraryCollection, Search, SearchTask, renamed
from assay.run.workloads.corpus import Block, Floats

# Kind → options of its index, options of a search, each with the value that FAISS itself would take.
_INDEX: dict[str, dict[str, int]] = {"flat": {}, "ivf": {"lists": 0}, "hnsw": {"m": 32, "ef_construct": 40}}
_SEARCH: dict[str, dict[str, int]] = {"flat": {}, "ivf": {"probes": 1}, "hnsw": {"ef": 16}}
_NAMES = {
    "nlist": "lists", "nprobe": "probes", "M": "m", "efConstruction": "ef_construct",
    "ef_construction": "ef_construct", "efSearch": "ef", "ef_search": "ef",
}  # fmt: skip


class FaissIndex(LibraryCollection):
    name = "FAISS"
    failures: tuple[type[Exception], ...] = (RuntimeError,)

    def __init__(self, task: SearchTask, threads: int | None) -> None:
        self._faiss = _library()
        self._task, self._threads = task, threads
        options = renamed(task.index, _NAMES)
        self._kind = str(options.pop("kind", "hnsw"))
        if self._kind not in _INDEX:
            message = f"index.kind is {self._kind!r}"
            raise MeasureError(message, code="index-option", at="target.index", try_=f"use one of {', '.join(_INDEX)}")
        self._options = _numbers(options, _INDEX[self._kind], self._kind, "target.index")
        self._search = _numbers(renamed(task.search, _NAMES), _SEARCH[self._kind], self._kind, "target.search")
        self._held: Floats | None = None
        self._left: list[NDArray[np.int64]] = []
        self._queries: Floats | None = None
        self._threads_used = 0
        self._index: Any = None
        self._selector: Any = None

    def create(self) -> None:
        if self._threads is not None:
            self._faiss.omp_set_num_threads(self._threads)
        corpus = self._task.corpus
        self._held = np.empty((corpus.vectors, corpus.dims), dtype=np.float32)

    def insert(self, block: Block) -> None:
        """Keep some vectors; nothing is sent anywhere."""
        if self._held is None:
            raise MeasureError("vectors came before their index was made", code="vector-engine")
        place = self._held[block.first : block.first + len(block)]
        place[:] = block.vectors
        if self._task.corpus.metric == "cosine":
            self._faiss.normalize_L2(place)
        if self._task.filtered:
            self._left.append(block.first + np.flatnonzero(block.tags))

    def finish(self) -> float:
        """Train where the kind needs it, and add all vectors."""
        if self._held is None:
            raise MeasureError("there are no vectors to index", code="vector-engine")
        start = perf_counter_ns()
        self._index = self._made(len(self._held))
        try:
            if not self._index.is_trained:
                self._index.train(self._held)
            self._index.add(self._held)
        except RuntimeError as problem:
            raise MeasureError(f"FAISS refuses: {problem}", code="index-option", at="target.index") from None
        seconds = (perf_counter_ns() - start) / 1e9
        self._held = None  # the index has its own copy
        if self._task.filtered:
            self._selector = self._faiss.IDSelectorBatch(np.concatenate(self._left))
        return seconds

    def searcher(self, queries: Floats) -> FaissSearcher:
        """Searches of the calling thread; the number of threads is a setting of each thread."""
        if self._threads is not None:
            self._faiss.omp_set_num_threads(self._threads)
        self._threads_used = int(self._faiss.omp_get_max_threads())
        if self._queries is None:  # made once; the threads share it
            asked = queries.copy()
            if self._task.corpus.metric == "cosine":
                self._faiss.normalize_L2(asked)
            self._queries = asked
        return FaissSearcher(self._index, self._queries, self._task.k, self._parameters())

    def index_mb(self) -> float:
        total = 0

        def count(part: bytes) -> int:
            nonlocal total
            total += len(part)
            return len(part)

        self._faiss.write_index(self._index, self._faiss.PyCallbackIOWriter(count))
        return total / 1e6

    def facts(self) -> dict[str, JsonValue]:
        index, settings = self._index, dict[str, JsonValue]()
        if self._kind == "hnsw":
            # The graph keeps twice m neighbours on its lowest level.
            settings = {"m": int(index.hnsw.nb_neighbors(1)), "ef_construct": int(index.hnsw.efConstruction)}
        elif self._kind == "ivf":
            settings = {"lists": int(index.nlist)}
        return {
            "version": self._faiss.__version__,
            "index_kind": self._kind,
            "index": settings,
            "search": dict(self._search),
            "vectors": int(index.ntotal),
            "threads": self._threads_used,
            "instructions": str(self._faiss.get_compile_options()).strip(),
            "index_mb_is": "bytes of the index as FAISS writes it to a file",
        }

    def close(self) -> None:
        self._index = self._held = self._selector = None

    def _made(self, count: int) -> Any:  # noqa: ANN401
        faiss, dims = self._faiss, self._task.corpus.dims
        metric = faiss.METRIC_L2 if self._task.corpus.metric == "euclid" else faiss.METRIC_INNER_PRODUCT
        if self._kind == "flat":
            return faiss.IndexFlat(dims, metric)
        if self._kind == "hnsw":
            index = faiss.IndexHNSWFlat(dims, self._options["m"], metric)
            index.hnsw.efConstruction = self._options["ef_construct"]
            return index
        # The rule of thumb of its authors: four times the root of the number of vectors.
        lists = self._options["lists"] or max(1, min(count, round(4 * count**0.5)))
        self._quantizer = faiss.IndexFlat(dims, metric)
        return faiss.IndexIVFFlat(self._quantizer, dims, lists, metric)

    def _parameters(self) -> Any:  # noqa: ANN401
        given: dict[str, Any] = {} if self._selector is None else {"sel": self._selector}
        if self._kind == "hnsw":
            return self._faiss.SearchParametersHNSW(efSearch=self._search["ef"], **given)
        if self._kind == "ivf":
            return self._faiss.SearchParametersIVF(nprobe=self._search["probes"], **given)
        return self._faiss.SearchParameters(**given) if given else None


class FaissSearcher:
    def __init__(self, index: Any, queries: Floats, k: int, parameters: Any) -> None:  # noqa: ANN401
        find = index.search

        def search(query: int) -> NDArray[np.int64]:
            neighbours: NDArray[np.int64] = find(queries[query : query + 1], k, params=parameters)[1][0]
            return neighbours

        self.search: Search = search

    def close(self) -> None:
        """Nothing to let go of."""


def _numbers(given: dict[str, JsonValue], known: dict[str, int], kind: str, at: str) -> dict[str, int]:
    """Options as whole numbers, the library's own values where none is given."""
    for name, value in given.items():
        if name not in known:
            message = f"a FAISS index of kind {kind} has no {name!r}"
            try_ = f"use {', '.join(known)}" if known else "remove it"
            raise MeasureError(message, code="index-option", at=at, try_=try_)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise MeasureError(f"{name} is {value!r}, not a whole number above 0", code="index-option", at=at)
    return {**known, **{name: value for name, value in given.items() if isinstance(value, int)}}


def _library() -> Any:  # noqa: ANN401
    try:
        import faiss
    except ImportError:
        raise MeasureError("FAISS is not installed", code="runtime", try_="pip install 'assay-bench[vector]'") from None
    return faiss

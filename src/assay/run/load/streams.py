"""Several calls at once: MLPerf's multi-stream and offline scenarios."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from assay.run.load.timing import Call, Stopwatch, time_calls

# Runs a number of calls and leaves their times in the stopwatch; returns the wall time it took.
Block = Callable[[Stopwatch, int], int]


@contextmanager
def single_stream(call: Call) -> Iterator[Block]:
    """One call after another."""

    def block(watch: Stopwatch, calls: int) -> int:
        begin = watch.count
        starts, ends = watch.reserve(calls)
        time_calls(call, starts, ends, begin, begin + calls)
        watch.advance(calls)
        return watch.span_ns(begin)

    yield block


@contextmanager
def multi_stream(call: Call, streams: int) -> Iterator[Block]:
    """A query of several calls at once; its time ends with the slowest, and then the next query starts."""
    with _query(call, streams) as query, single_stream(query) as block:
        yield block


@contextmanager
def offline(call: Call, streams: int) -> Iterator[Block]:
    """As many calls as possible: every stream calls without waiting for the others."""
    if streams == 1:
        with single_stream(call) as block:
            yield block
        return
    with ThreadPoolExecutor(streams, thread_name_prefix="stream") as pool:

        def block(watch: Stopwatch, calls: int) -> int:
            begin = watch.count
            share = max(1, calls // streams)
            starts, ends = watch.reserve(share * streams)
            firsts = [begin + share * stream for stream in range(streams)]
            work = [pool.submit(time_calls, call, starts, ends, first, first + share) for first in firsts]
            for part in work:
                part.result()
            watch.advance(share * streams)
            return watch.span_ns(begin)

        yield block


class _Worker:
    """A thread that makes one call each time its gate opens."""

    def __init__(self, call: Call) -> None:
        self.failure: BaseException | None = None
        self._call = call
        self._gate = threading.Lock()
        self._done = threading.Lock()
        self._stopping = False
        self._gate.acquire()
        self._done.acquire()
        self.open_gate = self._gate.release
        self.wait = self._done.acquire
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._gate.release()
        self._thread.join()

    def _serve(self) -> None:
        while self._gate.acquire() and not self._stopping:
            try:
                self._call()
            except BaseException as failure:  # handed to the thread that asked
                self.failure = failure
            self._done.release()


@contextmanager
def _query(call: Call, streams: int) -> Iterator[Call]:
    """One callable that makes `streams` calls at once, on threads that wait between queries."""
    workers = [_Worker(call) for _ in range(streams)]

    def query() -> None:
        for worker in workers:
            worker.open_gate()
        for worker in workers:
            worker.wait()
        for worker in workers:
            if worker.failure is not None:
                raise worker.failure

    try:
        yield query
    finally:
        for worker in workers:
            worker.stop()

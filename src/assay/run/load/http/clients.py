"""One load shared by several client processes of this machine, and how much one of them can do.

The ceiling is measured against a server that does nothing. A request costs a client some time, and so does each arrival
of a piece of its answer. Two loads with few and many pieces tell the two costs apart; what a run asks of its client is
then a share of what it can do. A busy client finds many arrivals each time it looks at the network, which makes each of
them cheaper; so the client naps between two looks while its costs are measured, as if it had been busy meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from assay import files
from assay.errors import MeasureError
from assay.run.load.http.driver import HttpLoad, LoadCallbacks, LoadWarmup, Repeat, Supply
from assay.run.load.http.loops import ClosedLoop, drive
from assay.run.load.http.origin import origin_of
from assay.run.load.http.poller import Poller
from assay.run.load.http.recording import COLUMNS, ClientCost, LoadRecording, join, mapped
from assay.run.load.shape import ClosedShape, RateLevel

_PIECES = 48
_USERS = 64
_SECONDS = 0.4
_NAP_S = 0.0003
_BODY = b'{"model": "null", "messages": [{"role": "user", "content": "nothing"}], "stream": true}'
# Long enough for every process to be there when the load begins.
_START_NS = 300_000_000
# A client that has told everything ends at once.
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a client process pays on this machine, in microseconds of processor time."""

    request_us: float
    piece_us: float

    def share(self, cost: ClientCost) -> float:
        """How much of one core a client's work takes at these prices."""
        return (cost.requests * self.request_us + cost.pieces * self.piece_us) / 1e6 / cost.wall_s

    def requests_per_s(self, pieces: float) -> float:
        """The most requests a second, at so many pieces an answer."""
        return 1e6 / (self.request_us + pieces * self.piece_us)


def ceiling(cache: Path, scratch: Path) -> Ceiling | None:
    """The ceiling of this machine, measured once and kept; None where it cannot be measured."""
    path = cache / "client-ceiling" / f"{_key()}.json"
    try:
        return Ceiling(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        measured = measure_ceiling(scratch)
    if measured is None:
        return None
    with suppress(OSError):  # a cache that cannot be written costs a second the next time
        files.write_whole(path, json.dumps(asdict(measured)).encode())
    return measured


def measure_ceiling(scratch: Path) -> Ceiling | None:
    """Load a server that does nothing, once with answers in one piece and once in many."""
    few, many = (_load(pieces, scratch) for pieces in (0, _PIECES))
    if few is None or many is None:
        return None
    few_us, many_us = few.cpu_s * 1e6 / few.requests, many.cpu_s * 1e6 / many.requests
    few_pieces, many_pieces = few.pieces / few.requests, many.pieces / many.requests
    if many_pieces < few_pieces + 1:
        return None  # the pieces came together, so their cost cannot be told apart
    piece_us = max(0.0, (many_us - few_us) / (many_pieces - few_pieces))
    return Ceiling(request_us=max(0.0, few_us - few_pieces * piece_us), piece_us=piece_us)


def with_ceiling(recording: LoadRecording, known: Ceiling | None) -> LoadRecording:
    """The same recording, in which each client knows its share of the ceiling."""
    if known is None:
        return recording
    costs = tuple(replace(cost, ceiling_share=known.share(cost)) for cost in recording.clients)
    return replace(recording, clients=costs)


def _load(pieces: int, scratch: Path) -> ClientCost | None:
    with _null_server(pieces) as url:
        if not url:
            return None  # it did not start: no port is free, or there is no memory
        origin = origin_of(url, own=True)
        wire = origin.request("POST", "/v1/chat/completions", {"Content-Type": "application/json"}, _BODY)
        users = ClosedShape((RateLevel(math.inf, _USERS, _USERS),))
        load = HttpLoad(origin, users, scratch, warmup=LoadWarmup(seconds=0.1), duration_s=_SECONDS, timeout_s=5)
        loop = ClosedLoop(load, Repeat((wire,)), LoadCallbacks(), users)
        loop.poller = _Napping(loop.poller)
        (cost,) = loop.run().clients
        return cost if cost.requests and cost.pieces else None


class _Napping:
    """A poller that lets arrivals gather before it looks; naps cost no processor time."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self.watch, self.change, self.forget, self.close = poller.watch, poller.change, poller.forget, poller.close

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        """Nap, then look."""
        time.sleep(_NAP_S)
        return self._poller.wait(until_ns)


@contextmanager
def _null_server(pieces: int) -> Iterator[str]:
    command = [sys.executable, "-m", "assay.sim.null", "--pieces", str(pieces), "--apart"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield line.rsplit(" ", 1)[-1].strip()
        finally:
            process.terminate()


def _key() -> str:
    """Machine and software that the figures hold for."""
    from importlib.metadata import version

    known = [
        platform.node(),
        platform.machine(),
        platform.processor(),
        sys.version,
        version("httptools"),
        _own_source(),
    ]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:32]


def _own_source() -> str:
    """The loop itself: a changed loop has another ceiling."""
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


def drive_clients(load: HttpLoad, supply: Supply, asks: LoadCallbacks | None = None) -> LoadRecording:
    """Drive a load with as many processes as it asks for.

    Raises:
        MeasureError: if a client died, or this system cannot share the work out.
    """
    if load.clients == 1:
        return drive(load, supply, asks)
    if "fork" not in get_all_start_methods():
        raise MeasureError(
            f"load.clients is {load.clients}; this system starts one client process only",
            code="clients",
            try_="leave load.clients out, or run on Linux or macOS",
        )
    load = replace(load, start_ns=max(load.start_ns or 0, perf_counter_ns() + _START_NS))
    context = get_context("fork")
    pipes = []
    processes = []
    for client in range(load.clients):
        ours, theirs = context.Pipe(duplex=False)
        share = replace(load, client=client)
        # Only the first one tells how far it is: all are equally far.
        told = (
            None
            if asks is None
            else replace(asks, measuring=_nothing, progress=asks.progress if client == 0 else _silent)
        )
        processes.append(context.Process(target=_client, args=(share, supply, told, theirs), daemon=True))
        pipes.append((ours, theirs))
    begun = []
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            begun.append(process)
            theirs.close()
        answers = [_answer(client, ours) for client, (ours, _) in enumerate(pipes)]
    except BaseException:
        for process in begun:
            process.kill()  # what the others measure is of no use
        raise
    finally:
        for process in begun:
            process.join(_END_S)
            process.kill()
            process.join()
    return joined(load.spool, answers)


def _silent(_share: float, _note: str) -> None:
    return None


def _nothing() -> None:
    return None


def _client(load: HttpLoad, supply: Supply, asks: LoadCallbacks | None, pipe: Pipe) -> None:
    """One client process: its columns go to a file, its bodies stay in theirs."""
    try:
        recording = drive(load, supply, asks)
        columns = {name: getattr(recording, name) for name in COLUMNS}
        np.savez(load.spool / f"client-{load.client}.npz", **columns)
        (load.spool / f"client-{load.client}.content").write_bytes(recording.content)
        pipe.send({"window": recording.window, "clients": recording.clients, "stopped": recording.stopped})
    except BaseException as failure:  # whatever it is, the one who waits must hear of it
        traceback.print_exc()
        pipe.send({"failure": f"{type(failure).__name__}: {failure}"})
    finally:
        pipe.close()
        os._exit(0)  # nothing of the process that was copied is to be cleaned up twice


def _answer(client: int, pipe: Pipe) -> Mapping[str, object]:
    try:
        answer: Mapping[str, object] = pipe.recv()
    except EOFError:
        answer = {"failure": "it died without a word"}
    if "failure" in answer:
        raise MeasureError(
            f"client process {client} failed: {answer['failure']}",
            code="client",
            try_="see the last lines of this run's log",
        )
    return answer


def joined(folder: Path, answers: list[Mapping[str, object]]) -> LoadRecording:
    """Read what clients left and put it together; bodies are joined on disk, never in memory."""
    whole = folder / "all.content"
    parts = []
    with whole.open("wb") as file:
        for client, answer in enumerate(answers):
            path = folder / f"client-{client}.content"
            with path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
            with np.load(folder / f"client-{client}.npz", allow_pickle=False) as columns:
                parts.append(_part(answer, {name: columns[name] for name in COLUMNS}))
            path.unlink()
            (folder / f"client-{client}.npz").unlink()
    fd = os.open(whole, os.O_RDONLY)
    try:
        return join(parts, mapped(fd))
    finally:
        os.close(fd)
        whole.unlink()


def _part(answer: Mapping[str, object], columns: Mapping[str, Any]) -> LoadRecording:
    window, clients, stopped = answer["window"], answer["clients"], answer["stopped"]
    if not (isinstance(window, tuple) and isinstance(clients, tuple) and isinstance(stopped, str)):
        raise TypeError(f"a client answered {answer!r}")
    costs = tuple(one for one in clients if isinstance(one, ClientCost))
    return LoadRecording(**columns, content=memoryview(b""), window=window, clients=costs, stopped=stopped)

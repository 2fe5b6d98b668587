"""From the sections of a file to a load that the HTTP loop can drive, with phases that people can watch.

Machines that share a load meet after their first request, right before the load. The warm-up belongs to the load: it is
driven by all machines at the same time, as long on each, so that their measured windows begin together too.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from pydantic import JsonValue

from assay import files
from assay.errors import MeasureError
from assay.run.contract import Order, Rules, Stage
from assay.run.load.barrier import BarrierOutcome, meet
from assay.run.load.http.driver import HttpLoad, LoadCallbacks, LoadWarmup, Repeat, Supply
from assay.run.load.http.loops import ClosedLoop, drive
from assay.run.load.http.origin import Origin, origin_of
from assay.run.load.http.poller import Poller
from assay.run.load.http.recording import COLUMNS, ClientCost, LoadRecording, join, mapped
from assay.run.load.shape import ClosedShape, RateLevel, Shape, shape_of
from assay.run.load.timing import read_clocks
from assay.run.records import Phase
from assay.run.workloads.trace import Trace
from assay.spec.benchmark import Measure
from assay.spec.workload import Load

# Even a run that has no time to lose gives the others a moment.
_LEAST_S = 5.0
# Kept free at the end of a run's time for reading answers and writing results.
_FOR_READING = 0.15
_LEAST_READING_S, _MOST_READING_S = 2.0, 60.0
# Several processes cannot agree on when the times are level; they warm up for a fixed while.
_SHARED_WARMUP_S = 3.0


@dataclass(slots=True)
class Rendezvous:
    """The meeting of one run; where there is none, it costs nothing."""

    order: Order
    met: BarrierOutcome | None = None

    def start_ns(self, load: HttpLoad, stage: Stage, deadline_ns: int) -> int | None:
        """Wait for the others; when to begin on the clock of the load loop, None for immediately."""
        meeting = self.order.meeting
        if meeting is None:
            return None
        stage.progress(0.0, f"waiting for the other {meeting.of - 1} clients")
        needed_s = load.warmup.seconds + (load.duration_s or load.at_most_s) + meeting.lead_s
        within_s = max(_LEAST_S, (deadline_ns - perf_counter_ns()) / 1e9 - needed_s)
        self.met = meet(meeting.of_run(self.order.run_id), meeting.who, meeting.of, within_s, lead_s=meeting.lead_s)
        now = read_clocks()
        return now.loop_ns + self.met.start_at_ns - now.epoch_ns

    def facts(self, clock: JsonValue) -> dict[str, JsonValue]:
        """How the meeting went, and how long after the common moment this machine's load began."""
        if self.met is None:
            return {}
        begun = clock.get("load_begin_epoch_ns") if isinstance(clock, dict) else None
        after_s = (begun - self.met.start_at_ns) / 1e9 if isinstance(begun, int) else None
        return {"barrier": {**self.met.facts(), "began_after_s": after_s}}


class Phases:
    """Phases that change from inside a load: it says when it begins to measure."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._open = ExitStack()
        self._name: Phase | None = None

    def enter(self, name: Phase) -> None:
        """End the phase before and begin this one; the same again changes nothing."""
        if name != self._name:
            self._open.close()
            self._open = ExitStack()
            self._open.enter_context(self._stage.phase(name))
            self._name = name

    def close(self) -> None:
        self._open.close()
        self._name = None


def load_of(order: Order, origin: Origin, *, trace: Trace | None = None, rate: float | None = None) -> HttpLoad:
    definition = order.job.definition
    load, measure, target = definition.load, definition.measure, definition.target
    shape = shape_of(load, rate=rate, trace_s=None if trace is None else trace.at_s.tolist())
    return HttpLoad(
        origin=origin,
        shape=shape,
        spool=Path(order.scratch),
        seed=definition.workload.seed + order.run_id,
        warmup=_warmup(load, measure, shape, replays=trace is not None),
        duration_s=load.duration,
        requests=load.requests,
        at_least_s=measure.until.at_least,
        at_most_s=measure.until.at_most,
        interval=measure.until.interval,
        timeout_s=getattr(target, "timeout", 120.0),
        max_in_flight=load.max_in_flight,
        errors=load.errors,
        clients=load.clients,
        host=load.host or 0,
        hosts=load.hosts,
    )


def _warmup(load: Load, measure: Measure, shape: Shape, *, replays: bool) -> LoadWarmup:
    """Warm-up at the load that is measured; stages and traces begin where they begin."""
    asked = measure.warmup
    ramp_s = load.ramp or 0.0
    if isinstance(asked, float):
        return LoadWarmup(seconds=asked + ramp_s)
    if isinstance(asked, int):
        return LoadWarmup(requests=max(asked, shape.most if isinstance(shape, ClosedShape) else 1))
    if asked == "none" or replays or load.stages:
        return LoadWarmup(seconds=ramp_s)
    longest_s = max(1.0, load.duration or measure.until.at_most)
    if load.clients > 1 or load.hosts > 1:
        return LoadWarmup(seconds=ramp_s + min(_SHARED_WARMUP_S, longest_s))
    return LoadWarmup(detect=not ramp_s, seconds=ramp_s + longest_s)


def deadline_ns(measure: Measure, began_ns: int) -> int:
    """When a load must be over, so that its answers can still be read."""
    return began_ns + int((measure.timeout - reading_s(measure)) * 1e9)


def reading_s(measure: Measure) -> float:
    """Time at the end of a run that is kept for what comes after the load."""
    return min(_MOST_READING_S, max(_LEAST_READING_S, _FOR_READING * measure.timeout))


def drive_watched(
    load: HttpLoad,
    supply: Supply,
    order: Order,
    stage: Stage,
    rules: Rules,
    began_ns: int,
    latency_s: float = 0.0,
    rendezvous: Rendezvous | None = None,
) -> LoadRecording:
    """Drive a load, tell how far it is, and put the client's share of its ceiling beside it.

    Args:
        latency_s: about how long one answer takes when nothing else is asked.
    """
    measure = order.job.definition.measure
    client_ceiling = ceiling(Path(order.cache or order.scratch), Path(order.scratch))
    until_ns = deadline_ns(measure, began_ns)
    if rendezvous is not None:
        load = replace(load, start_ns=rendezvous.start_ns(load, stage, until_ns))
    phases = Phases(stage)
    warm = load.warmup
    phases.enter("warmup" if warm.detect or warm.seconds or warm.requests else "measure")

    stops = order.job.definition.load.saturation == "stop"
    asks = LoadCallbacks(
        steady=rules.steady,
        enough=rules.enough,
        falls_behind=(lambda story: rules.falls_behind(story, latency_s))
        if stops and not isinstance(load.shape, ClosedShape)
        else None,
        progress=stage.progress,
        measuring=lambda: phases.enter("measure"),
    )
    try:
        recording = drive_clients(replace(load, deadline_ns=max(until_ns, perf_counter_ns())), supply, asks)
    finally:
        phases.close()
    return with_ceiling(recording, client_ceiling)


def load_facts(load: Load) -> dict[str, float | int | str]:
    """What was asked of a load without a trace, in one line of facts."""
    shape = shape_of(load)
    if isinstance(shape, ClosedShape):
        asked: dict[str, float | int | str] = {"shape": "closed", "concurrency": shape.most}
        return asked | ({"think_s": shape.think_s} if shape.think_s else {})
    levels = [level for level in shape.levels if math.isfinite(level.duration_s)] or list(shape.levels)
    return {"shape": "open", "arrivals": shape.process, "rate": max(max(step.begin, step.end) for step in levels)}


_PIECES = 48
_USERS = 64
_SECONDS = 0.4
_NAP_S = 0.0003
_BODY = b'{"model": "null", "messages": [{"role": "user", "content": "nothing"}], "stream": true}'
# Long enough for every process to be there when the load begins.
_START_NS = 300_000_000
# A client that has reported everything ends immediately.
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a client process pays on this machine, in microseconds of processor time."""

    request_us: float
    piece_us: float

    def share(self, cost: ClientCost) -> float:
        """How much of one core a client's work takes at these prices."""
        return (cost.requests * self.request_us + cost.pieces * self.piece_us) / 1e6 / cost.wall_s


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
        return None  # the pieces came together, so the cost of one cannot be separated
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

    # The loop itself is among them: a changed loop has another ceiling.
    source = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    machine = [platform.node(), platform.machine(), platform.processor(), sys.version]
    parts = [*machine, version("httptools"), hashlib.sha256(source).hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def drive_clients(load: HttpLoad, supply: Supply, asks: LoadCallbacks | None = None) -> LoadRecording:
    """Drive a load with as many processes as it asks for."""
    if load.clients == 1:
        return drive(load, supply, asks)
    if "fork" not in get_all_start_methods():
        message = f"load.clients is {load.clients}; this system starts one client process only"
        raise MeasureError(message, code="clients", try_="leave load.clients out, or run on Linux or macOS")
    load = replace(load, start_ns=max(load.start_ns or 0, perf_counter_ns() + _START_NS))
    context = get_context("fork")
    pipes = []
    processes = []
    for client in range(load.clients):
        ours, theirs = context.Pipe(duplex=False)
        share = replace(load, client=client)
        # Only the first one tells how far it is: all are equally far.
        callbacks = asks and replace(asks, measuring=_nothing, progress=asks.progress if client == 0 else _nothing)
        processes.append(context.Process(target=_client, args=(share, supply, callbacks, theirs), daemon=True))
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


def _nothing(*_: object) -> None:
    return None


def _client(load: HttpLoad, supply: Supply, asks: LoadCallbacks | None, pipe: Pipe) -> None:
    """One client process: its columns go to a file, its bodies stay in theirs."""
    try:
        recording = drive(load, supply, asks)
        columns = {name: getattr(recording, name) for name in COLUMNS}
        np.savez(load.spool / f"client-{load.client}.npz", **columns)
        (load.spool / f"client-{load.client}.content").write_bytes(recording.content)
        pipe.send((recording.window, recording.clients, recording.stopped))
    except BaseException as failure:  # whatever it is, the one who waits must hear of it
        traceback.print_exc()
        pipe.send(f"{type(failure).__name__}: {failure}")
    finally:
        pipe.close()
        os._exit(0)  # nothing of the process that was copied is to be cleaned up twice


_Answer = tuple[tuple[int, int], tuple[ClientCost, ...], str]  # window, clients and end of a recording


def _answer(client: int, pipe: Pipe) -> _Answer:
    try:
        answer: _Answer | str = pipe.recv()
    except EOFError:
        answer = "it died without a word"
    if isinstance(answer, str):
        message = f"client process {client} failed: {answer}"
        raise MeasureError(message, code="client", try_="see the last lines of this run's log")
    return answer


def joined(folder: Path, answers: list[_Answer]) -> LoadRecording:
    """Read what clients left and put it together; bodies are joined on disk, never in memory."""
    whole = folder / "all.content"
    parts = []
    with whole.open("wb") as file:
        for client, (window, clients, stopped) in enumerate(answers):
            path = folder / f"client-{client}.content"
            with path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
            with np.load(folder / f"client-{client}.npz", allow_pickle=False) as columns:
                held: dict[str, Any] = {name: columns[name] for name in COLUMNS}
            empty = memoryview(b"")
            parts.append(LoadRecording(**held, content=empty, window=window, clients=clients, stopped=stopped))
            path.unlink()
            (folder / f"client-{client}.npz").unlink()
    fd = os.open(whole, os.O_RDONLY)
    try:
        return join(parts, mapped(fd))
    finally:
        os.close(fd)
        whole.unlink()

"""One load shared by several client processes of this machine; what they saw is put together, row by row."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from assay.errors import MeasureError
from assay.run.load.http.columns import mapped
from assay.run.load.http.driver import Asks, HttpLoad, Supply
from assay.run.load.http.loops import drive
from assay.run.load.http.recording import COLUMNS, ClientCost, Recording, join

# Long enough for every process to be there when the load begins.
_START_NS = 300_000_000
# A client that has told everything ends at once.
_END_S = 5.0


def drive_clients(load: HttpLoad, supply: Supply, asks: Asks | None = None) -> Recording:
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


def _client(load: HttpLoad, supply: Supply, asks: Asks | None, pipe: Pipe) -> None:
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


def joined(folder: Path, answers: list[Mapping[str, object]]) -> Recording:
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


def _part(answer: Mapping[str, object], columns: Mapping[str, Any]) -> Recording:
    window, clients, stopped = answer["window"], answer["clients"], answer["stopped"]
    if not (isinstance(window, tuple) and isinstance(clients, tuple) and isinstance(stopped, str)):
        raise TypeError(f"a client answered {answer!r}")
    costs = tuple(one for one in clients if isinstance(one, ClientCost))
    return Recording(**columns, content=memoryview(b""), window=window, clients=costs, stopped=stopped)

"""The process that owns services: starts them, keeps what they write, and ends them when its own lifeline is cut.

Started as `python -m assay.run.services.keeper` by `assay.run.services`; never by a user. Its standard input is one
line that says what to start, then the lifeline: at its end everything is torn down, even if its holder was killed.
Its standard output tells what happens, one JSON object per line. It is a process apart so that the log of a talkative
service never takes time from the one that measures.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assay.errors import AssayError
from assay.run.processes import GRACE_S, HURRIED_GRACE_S, IN_GOOD_ORDER, adopt_orphans, end_children
from assay.run.services.launch import LaunchContext, ServiceAddress, ServiceProcess, SpawnGate, start
from assay.run.services.plan import ServiceSpec


def main() -> int:
    """Start services, hold them until the lifeline is cut, end them."""
    adopt_orphans()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # only the lifeline ends it, so that nothing stays behind
        if hasattr(signal, name):
            # A function and not SIG_IGN, which the services would inherit.
            signal.signal(getattr(signal, name), lambda *_: None)
    with os.fdopen(0, "rb", buffering=0, closefd=False) as lifeline:  # a buffer would swallow what comes after the line
        order = json.loads(lifeline.readline())
        gate = SpawnGate()
        threading.Thread(target=_run, args=(order, gate), daemon=True).start()
        last = b""
        while piece := lifeline.read(1):
            last = piece
    _end_all(gate.close(), GRACE_S if last == IN_GOOD_ORDER else HURRIED_GRACE_S)
    return 0


def _run(order: Mapping[str, Any], gate: SpawnGate) -> None:
    """Start every service in its turn and tell."""
    base, scratch, images = (Path(order[key]) for key in ("base", "scratch", "images"))
    logs = None if order["logs"] is None else Path(order["logs"])
    notify = lambda name, seconds, answer: _send("waiting", {"name": name, "seconds": seconds, "answer": answer})  # noqa: E731
    setting = LaunchContext(base, scratch, order["tag"], gate, notify, order["host"], images, logs)
    addresses = {name: ServiceAddress(*address) for name, address in order["known"].items()}
    try:
        for plain in order["services"]:
            wanted = ServiceSpec.of(plain)
            running = start(wanted, addresses, setting)
            addresses[wanted.name] = ServiceAddress(running.host, running.port)
            _send("ready", {**asdict(running), "stdout": str(running.stdout), "stderr": str(running.stderr)})
    except AssayError as failure:
        _send("failed", asdict(failure.problem))
    except Exception as failure:  # the holder must hear of it, or it would wait for ever
        problem = {"code": "service", "message": f"{type(failure).__name__}: {failure}", "at": "services", "try_": ""}
        _send("failed", problem)
        raise
    else:
        _send("all", {})


def _end_all(children: list[ServiceProcess], grace_s: float) -> None:
    """End the services, the last one first, since it may need those before it."""
    until_s = time.monotonic() + grace_s
    for child in reversed(children):
        child.end(until_s)
    end_children()
    for child in children:
        child.flush()


def _send(event: str, what: Mapping[str, Any]) -> None:
    line = json.dumps({"event": event, **what}) + "\n"
    try:
        os.write(1, line.encode())
    except OSError:  # the holder no longer reads; the lifeline decides what follows
        return


if __name__ == "__main__":
    sys.exit(main())

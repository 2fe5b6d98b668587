"""The process that looks at a job and its machine: `python -m assay.run.probes.looking`, started by `watching_job`.

Its standard input brings one line of JSON for each thing to do: what to look at, the `begin` of a run, its `finish`.
It answers the first and each `finish` with one line. When its input ends, so does the process: it never outlives
whoever started it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.run.inherited import readable
from assay.run.probes.looker import Looker
from assay.run.probes.writing import answer

_PATIENCE_S = 3600.0


class Asked:
    """Lines of standard input, waited for no longer than until the next look."""

    def __init__(self, fd: int = 0) -> None:
        self._fd, self._rest = fd, b""

    def within(self, wait_s: float) -> list[dict[str, Any]] | None:
        """The documents that came in some time; None when there will be no more."""
        if not readable(self._fd, max(0.0, wait_s)):
            return []
        if not (chunk := os.read(self._fd, 65536)):
            return None
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]


def follow(looker: Looker, asked: Asked, todo: list[dict[str, Any]] | None) -> None:
    """Look again and again, and do what is asked, until the input ends."""
    due_s = time.monotonic()
    while todo is not None:
        for one in todo:
            _do(looker, one)
            due_s = time.monotonic() + looker.wait_s()  # each of them has just taken a look
        now_s = time.monotonic()
        if now_s >= due_s:
            looker.look()
            # One that came late is not made up for: two looks at once say no more than one.
            due_s = max(due_s + looker.wait_s(), now_s)
        todo = asked.within(due_s - time.monotonic())


def _do(looker: Looker, one: Mapping[str, Any]) -> None:
    if "begin" in one:
        looker.begin(one["begin"], one["beside"])
    elif "finish" in one:
        marks = [(str(phase), int(begin), int(end)) for phase, begin, end in one["marks"]]
        spans = {str(name): (int(begin), int(end)) for name, (begin, end) in one["spans"].items()}
        answer({"seen": looker.finish(marks, spans, Path(one["finish"]))})


def main() -> int:
    """Look until whoever asked is gone."""
    asked = Asked()
    while not (first := asked.within(_PATIENCE_S)):
        if first is None:
            return 0
    order, *rest = first
    gc.disable()  # nothing here is made in circles, and a collection would be the slowest look of all
    looker = Looker(float(order["every_s"]), order["own"])
    looker.settle()
    answer({"ready": True})
    try:
        follow(looker, asked, rest)
    finally:
        looker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

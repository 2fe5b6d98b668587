"""What the pods of one job hand out: read from their logs as it comes, fetched from where it waits, known to be whole.

A reader that was lost reads again from the beginning; what lies in the folder already is not taken twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from assay.engines.kubernetes.client.api import FORBIDDEN, SILENT, Api
from assay.engines.kubernetes.objects.pods import CONTAINER
from assay.engines.kubernetes.pod.parcels import Parcel, Receiver
from assay.engines.kubernetes.reading import PodLog, is_gone, lines_of
from assay.engines.slurm.node.progress import Progress
from assay.errors import AssayError, MeasureError
from assay.place.fleet.client import FleetClient, read_token
from assay.units import show_bytes

# Fetching large files from a pod may take this long.
_FETCH_S = 900.0
_TRIES, _LAG_S = 3, 0.3
Tell = Callable[[str], None]


@dataclass(slots=True)
class Delivery:
    """One pod that measures, and what comes out of it."""

    log: PodLog
    receiver: Receiver
    tell: Tell
    python: str = "python3"
    server: str | None = None
    read_s: float = float("-inf")
    """When its log was read last."""
    absent: dict[str, str] = field(default_factory=dict)
    """Path → why a file did not come."""
    _forbidden: bool = False

    @classmethod
    def of(cls, api: Api, pod: str, out: Path, words: Path, tell: Tell, *, python: str, server: str | None) -> Delivery:
        receiver = Receiver(out)
        log = PodLog(api, pod, CONTAINER, words, lambda line: receiver.take(line) == "words")
        return cls(log, receiver, tell, python, server)

    @property
    def is_told(self) -> bool:
        """Whether the pod has said that this was all."""
        return self.receiver.contents is not None

    @property
    def progress(self) -> Progress | None:
        """How far the job is, as it said last."""
        told = self.receiver.progress
        try:
            return (
                None
                if told is None
                else Progress(int(told["run"]), int(told["of"]), str(told["phase"]), float(told["share"]))
            )
        except (KeyError, TypeError, ValueError):
            return None

    def read(self) -> bool:
        """Read what its pod has written since; whether there was anything.

        Raises:
            MeasureError: if the server or the pod's node is silent, or this account may not read logs.
        """
        self.read_s = time.monotonic()
        try:
            return self.log.read()
        except MeasureError as problem:
            if problem.problem.code in (SILENT, FORBIDDEN):
                raise
            return False  # the pod is gone, or its node cannot be asked any more

    def finish(self, *, runs: bool, there: bool = True) -> None:
        """Get everything that can still be had: lines that were lost, what waits in the pod, what a server keeps.

        Args:
            there: whether it and its node are there at all: the last lines of a log may be a moment late.

        Raises:
            MeasureError: if the server of the cluster or the pod's node is silent; nothing that came is lost.
        """
        for attempt in range(_TRIES if there else 0):
            self.read()
            if self.is_told and not self.receiver.missing():
                break
            if attempt:
                self._again()
            time.sleep(_LAG_S)
        self._from_server()
        if self.receiver.lacking() and runs:
            self._from_pod()
        for parcel in self.receiver.lacking():
            self.absent.setdefault(parcel.path, self._why(parcel, runs=runs))

    def _again(self) -> None:
        """Read the whole log: a line may have been cut off on the way."""
        try:
            self.log.read(whole=True)
        except MeasureError as problem:
            if problem.problem.code == SILENT:
                raise

    def _from_server(self) -> None:
        waiting = self.receiver.on_server()
        if not waiting or self.server is None:
            return
        client = FleetClient(os.environ.get("ASSAY_SERVER") or self.server, read_token())
        for parcel in waiting:
            path = self.receiver.out / parcel.path
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                client.download(parcel.sha256, path)
            except (AssayError, OSError) as problem:
                self.absent[parcel.path] = f"the server did not give it out: {problem}"

    def _from_pod(self) -> None:
        """Fetch what was too large for the log, and let the pod go."""
        lacking = self.receiver.lacking()
        size = sum(parcel.size for parcel in lacking)
        self.tell(f"fetching {len(lacking)} files ({show_bytes(size)}) from the pod {self.log.pod}")
        try:
            self._run_there(())
            self._run_there(("taken",))
        except MeasureError as problem:
            if problem.problem.code == SILENT:
                raise
            self._forbidden = problem.problem.code == FORBIDDEN
            if not is_gone(problem):
                self.tell(f"large files of the pod {self.log.pod} cannot be fetched: {problem.problem.message}")

    def _run_there(self, words: tuple[str, ...]) -> None:
        command = (self.python, "-m", "assay.engines.kubernetes.pod.hand", *words)
        contents = self.receiver.contents
        for line in lines_of(self.log.api.execute(self.log.pod, CONTAINER, command, within_s=_FETCH_S)):
            self.receiver.take(line)
        # What it lists is only what it held back; the pod's own list is the whole one.
        self.receiver.contents = contents or self.receiver.contents

    def _why(self, parcel: Parcel, *, runs: bool) -> str:
        size = show_bytes(parcel.size)
        if self._forbidden:
            return f"it has {size}, too much for the pod's log, and this account may not `create pods/exec`"
        held = self.receiver.contents is not None and parcel in self.receiver.contents.held
        if held and not runs:
            return f"it has {size}, too much for the pod's log, and the pod ended before anybody fetched it"
        return f"its {size} did not come out of the pod whole"

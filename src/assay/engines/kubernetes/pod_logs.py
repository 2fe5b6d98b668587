"""What the pods of a campaign write, each line read once: words for people, and the parts of their results.

The API gives out a log from a moment on, to the second, and a reader may come twice or late. Every line carries the
moment at which it was written, by which those that were read before are passed over.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from assay.engines.base import FailureReason, Progress
from assay.engines.collect import read_result
from assay.engines.kubernetes.client.api import FORBIDDEN, NOT_FOUND, SILENT
from assay.engines.kubernetes.client.client import Client
from assay.engines.kubernetes.folder import PodFolder
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import CONTAINER, SERVICE
from assay.engines.kubernetes.observation import Observation, PodObservation
from assay.engines.kubernetes.pod.log_transport import Parcel, Receiver
from assay.engines.node import progress_of
from assay.errors import AssayError, MeasureError
from assay.exec.document import RESULT
from assay.plan.job import Job
from assay.run.services import log_excerpt, tail_of
from assay.spec.kubernetes import Kubernetes
from assay.units import show_bytes

_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")
# The API cuts to seconds, and the clocks of nodes differ a little.
_SLACK_S = 5.0
# Of the words of one pod this much is kept: its end, like that of every log.
MAX_WORDS = 64 * 2**20
# Fetching large files from a pod may take this long.
_FETCH_S = 900.0
_TRIES, _LAG_S = 3, 0.3
Notify = Callable[[str], None]
# How often logs are read while pods run, so that little is lost with a pod; and how many reads a second in all.
_READ_S, _READS_PER_S = 2.0, 10.0
# A node that does not give out a log is left alone for so long: it may take half a minute to say nothing.
_SILENT_S = 30.0


@dataclass(slots=True)
class PodLog:
    """The log of one container."""

    api: Client
    pod: str
    container: str
    words: Path
    """Where the words go."""
    is_words: Callable[[str], bool] = lambda _line: True
    """Takes a line; whether it is words, and no part of a result."""
    _last_ns: int = -1
    _at_last: int = 0
    """How many lines of that very moment were read."""
    _read_s: float | None = None
    _fresh: bool = True

    def read(self, *, whole: bool = False) -> bool:
        """Read what has come since the last time; whether there was anything.

        Args:
            whole: begin at the beginning of what the node still has: lines may have been lost on the way.
        """
        begun_s = time.monotonic()
        since_s = None if whole or self._read_s is None else begun_s - self._read_s + _SLACK_S
        skip_ns, skip, seen = self._last_ns, self._at_last, 0
        lines: list[str] = []
        some = False
        try:
            for stamp_ns, text in _stamped(self.api.logs(self.pod, self.container, since_s=since_s, timestamps=True)):
                seen += stamp_ns == skip_ns
                new = stamp_ns > skip_ns or (stamp_ns == skip_ns and seen > skip)
                if not new and not whole:
                    continue
                some = some or new
                words = self.is_words(text)
                if new:
                    lines += [text] if words else []
                    self._note(stamp_ns)
        finally:
            self._keep(lines)
        self._read_s = begun_s
        return some

    def _note(self, stamp_ns: int) -> None:
        self._at_last = self._at_last + 1 if stamp_ns == self._last_ns else 1
        self._last_ns = max(stamp_ns, self._last_ns)

    def _keep(self, lines: list[str]) -> None:
        if not lines and not self._fresh:
            return
        self.words.parent.mkdir(parents=True, exist_ok=True)
        # The first read has everything from the beginning, also what a process before has kept.
        mode = "w" if self._fresh else "a"
        if mode == "w" or self.words.stat().st_size < MAX_WORDS:
            with self.words.open(mode, encoding="utf-8", errors="replace") as file:
                file.writelines(f"{line}\n" for line in lines)
        self._fresh = False


def is_gone(problem: MeasureError) -> bool:
    """Whether a log cannot be read because its pod is gone."""
    return problem.problem.code == NOT_FOUND


def lines_of(pieces: Iterator[bytes]) -> Iterator[str]:
    """Whole lines; one that is not ended yet is left for the next time."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")


def _stamped(pieces: Iterator[bytes]) -> Iterator[tuple[int, str]]:
    last = -1
    for line in lines_of(pieces):
        stamp, _, text = line.partition(" ")
        at = stamp_ns(stamp)
        last = last if at is None else at
        yield last, line if at is None else text.rstrip("\r")


def stamp_ns(text: str) -> int | None:
    """A moment as nodes write it, in nanoseconds since the epoch; None where it is none."""
    match = _STAMP.match(text)
    if match is None:
        return None
    zone = "+00:00" if match[3] == "Z" else match[3]
    whole = int(datetime.fromisoformat(match[1] + zone).timestamp())
    return whole * 10**9 + int((match[2] or "0").ljust(9, "0"))


@dataclass(slots=True)
class PodDelivery:
    """One pod that measures, and what comes out of it."""

    log: PodLog
    receiver: Receiver
    notify: Notify
    python: str = "python3"
    server: str | None = None
    read_s: float = float("-inf")
    """When its log was read last."""
    absent: dict[str, str] = field(default_factory=dict)
    """Path → why a file did not come."""
    _forbidden: bool = False

    @classmethod
    def of(
        cls, api: Client, pod: str, out: Path, words: Path, notify: Notify, *, python: str, server: str | None
    ) -> PodDelivery:
        receiver = Receiver(out)
        log = PodLog(api, pod, CONTAINER, words, lambda line: receiver.take(line) == "words")
        return cls(log, receiver, notify, python, server)

    @property
    def is_complete(self) -> bool:
        """Whether the pod has said that this was all."""
        return self.receiver.contents is not None

    @property
    def progress(self) -> Progress | None:
        """How far the job is, as it said last."""
        document = self.receiver.progress
        return None if document is None else progress_of(document)

    def read(self) -> bool:
        """Read what its pod has written since; whether there was anything."""
        self.read_s = time.monotonic()
        try:
            return self.log.read()
        except MeasureError as problem:
            if problem.problem.code in (SILENT, FORBIDDEN):
                raise
            return False  # the pod is gone, or its node no longer answers

    def finish(self, *, runs: bool, there: bool = True) -> None:
        """Get everything that is still available: lines that were lost, what waits in the pod, what a server keeps.

        Args:
            there: whether it and its node are there at all: the last lines of a log may be a moment late.
        """
        for attempt in range(_TRIES if there else 0):
            self.read()
            if self.is_complete and not self.receiver.missing():
                break
            if attempt:
                self._again()
            time.sleep(_LAG_S)
        self._from_server()
        if self.receiver.lacking() and runs:
            # Fetch what was too large for the log, and let the pod go
            lacking = self.receiver.lacking()
            size = sum(parcel.size for parcel in lacking)
            self.notify(f"fetching {len(lacking)} files ({show_bytes(size)}) from the pod {self.log.pod}")
            try:
                self._run_there(())
                self._run_there(("taken",))
            except MeasureError as problem:
                if problem.problem.code == SILENT:
                    raise
                self._forbidden = problem.problem.code == FORBIDDEN
                if not is_gone(problem):
                    self.notify(f"large files of the pod {self.log.pod} cannot be fetched: {problem.problem.message}")
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
        from assay.place.fleet.client import FleetClient, read_token

        client = FleetClient(os.environ.get("ASSAY_SERVER") or self.server, read_token())
        for parcel in waiting:
            path = self.receiver.out / parcel.path
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                client.download(parcel.sha256, path)
            except (AssayError, OSError) as problem:
                self.absent[parcel.path] = f"the server did not give it out: {problem}"

    def _run_there(self, words: tuple[str, ...]) -> None:
        command = (self.python, "-m", "assay.engines.kubernetes.pod.log_transport", *words)
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


@dataclass(slots=True)
class PodLogs:
    """What the pods of a campaign write."""

    api: Client
    folder: PodFolder
    section: Kubernetes
    notify: Callable[[str], None]
    _deliveries: dict[str, PodDelivery] = field(default_factory=dict)
    """Uid of a pod → what comes out of it."""
    _services: dict[str, PodLog] = field(default_factory=dict)
    _services_s: float = 0.0

    def deliveries(self, index: int, ranks: Mapping[int, PodObservation]) -> dict[int, PodDelivery]:
        """What comes out of the pods of a job, by rank."""
        for rank, pod in ranks.items():
            if pod.uid not in self._deliveries:
                server = self.section.server if self.section.results == "server" else None
                out, words = self.folder.rank_out(index, rank), self.folder.log(index, rank)
                self._deliveries[pod.uid] = PodDelivery.of(
                    self.api, pod.name, out, words, self.notify, python=self.section.python, server=server
                )
        return {rank: self._deliveries[pod.uid] for rank, pod in sorted(ranks.items())}

    def read(self, running: Iterable[PodDelivery]) -> None:
        """Read the logs of pods that run, those whose turn it is; whether a server is silent others find out."""
        every = list(running)
        due_s = max(_READ_S, len(every) / _READS_PER_S)
        for reader in every:
            if time.monotonic() - reader.read_s < due_s or reader.is_complete:
                continue
            try:
                reader.read()
            except MeasureError as problem:
                if problem.problem.code != SILENT:
                    raise
                reader.read_s = time.monotonic() + _SILENT_S

    def is_time_for_services(self) -> bool:
        """Whether the logs of services are to be read again."""
        if time.monotonic() - self._services_s < 2 * _READ_S:
            return False
        self._services_s = time.monotonic()
        return True

    def read_service(self, group: Group, name: str, observation: Observation) -> None:
        """Read what a service has written, as far as its node gives it out."""
        for pod in observation.pods:
            if pod.uid not in self._services:
                self._services[pod.uid] = PodLog(self.api, pod.name, SERVICE, self.folder.service_log(group.name, name))
            with suppress(MeasureError):
                self._services[pod.uid].read()

    def last_words(self, group: Group, name: str) -> str:
        """What a service wrote last, as the end of a message; empty where nothing came out of it."""
        lines = tail_of(self.folder.service_log(group.name, name))
        return log_excerpt(lines) if lines else ""

    def of_job(self, index: int, group: Group) -> dict[str, Path]:
        """What the pods of a job and its services wrote, as far as it was read."""
        own = {"pod.log": self.folder.log(index)}
        own |= {f"pod-{rank}.log": self.folder.log(index, rank) for rank in range(1, group.pods)}
        own |= {
            f"service-{service.name}.out": self.folder.service_log(group.name, service.name)
            for service in group.services
        }
        return {name: path for name, path in own.items() if path.is_file()}


@dataclass(frozen=True, slots=True)
class _Rank:
    """What one other pod of a job left."""

    folder: PodFolder
    rank: int

    def out(self, index: int) -> Path:
        return self.folder.rank_out(index, self.rank)


def refused_by_rank(folder: PodFolder, group: Group, job: Job) -> FailureReason | None:
    """What went wrong in another pod of a job; None where all did their part.

    The first pod's result is then none of the job: what it measured stays in its runs.
    """
    for rank in range(1, group.pods):
        other = read_result(_Rank(folder, rank), job)
        if other is None or other.state == "done":
            continue
        why = other.error.message if other.error is not None else "it measured nothing"
        (folder.out(job.index) / RESULT).unlink(missing_ok=True)
        message = f"pod {rank} of {group.pods} failed: {why}"
        return FailureReason("kubernetes-rank", message, "look into its log, which is kept with the first run")
    return None

"""Reports the progress of a campaign to a server, from a thread of its own: a slow or absent server delays nothing.

What is reported comes from the store and from the driver; the newest counts, and what is sent twice counts once. So
nothing has to be kept for a server that is away: the rest is sent when it is back, or by the next process.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.errors import AssayError, UsageError
from assay.files import write_whole
from assay.place.fleet.client import AwayError, FleetClient, RefusedError
from assay.place.fleet.protocol import DeliveryWord, Elsewhere, JobProgress, JobProgressReport
from assay.place.fleet.transport import back_off_s
from assay.plan.job import FINAL
from assay.report.result import read_job
from assay.run.records import SingleRunResult
from assay.store.listing import Listing
from assay.store.store import Store

FILE = "server.json"
_TOO_LARGE = "too-large"
# The server hears of changes at most so often.
_BETWEEN_S = 1.0
# How long a process waits before it leaves for what is still to be sent: at the end of a campaign, and in a hurry.
LAST_S, HURRY_S = 60.0, 2.0
_LONGEST_WAIT_S = 10.0
_SAVE_S = 5.0
_NOT_NOW = (401, 403)
Stands = Literal["waiting", "running"]


@dataclass(slots=True)
class ReportedResults:
    """Which results of a campaign one server has."""

    path: Path
    url: str
    sent: dict[int, str] = field(default_factory=dict)
    """Index of a job → hash of the result document that the server has."""

    def save(self) -> None:
        """Write it down; a folder that cannot be written to costs a repetition, and nothing else."""
        document = {"server": self.url, "told": {str(index): digest for index, digest in sorted(self.sent.items())}}
        with suppress(OSError):
            write_whole(self.path, json.dumps(document).encode())


def read_record(folder: Path, url: str) -> ReportedResults:
    """What a server has; nothing, where it was another one."""
    server, sent = _read(folder / FILE)
    return ReportedResults(folder / FILE, url, sent if server == url else {})


def remembered_server(folder: Path) -> str | None:
    """The server that a campaign was reported to before; None where there was none."""
    return _read(folder / FILE)[0]


def _read(path: Path) -> tuple[str | None, dict[int, str]]:
    try:
        record = json.loads(path.read_bytes())
        return str(record["server"]), {int(index): str(digest) for index, digest in record["told"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, {}


def result_of(store: Store, job_id: str) -> MultiRunJobResult:
    """The result of a job that has ended, as a store keeps it."""
    return read_job(Listing(store.engine).job(job_id).stored, store.runs)


def digest_of(result: MultiRunJobResult) -> str:
    """What tells two results of one job apart."""
    return hashlib.sha256(to_json(result).encode()).hexdigest()


def send_result(client: FleetClient, store: Store, campaign: str, result: MultiRunJobResult) -> DeliveryWord:
    """Hand a result over with everything that belongs to it; sent again, it changes nothing."""
    whole = replace(result, runs=tuple(_sent(client, store, run) for run in result.runs))
    return client.report_result(campaign, result.index, to_json(whole)).delivery


def _sent(client: FleetClient, store: Store, run: SingleRunResult) -> SingleRunResult:
    """A run whose samples and files the server has; a file that it cannot have is left out, and the run says why."""
    if run.samples:
        client.upload(store.samples.path(run.samples), run.samples, patience_s=0)
    files, absent = {}, dict(run.absent)
    for name, digest in run.files.items():
        why = _left_out(client, store.artefacts.path(digest), digest)
        if why:
            absent[name] = why
        else:
            files[name] = digest
    return replace(run, files=files, absent=absent)


def _left_out(client: FleetClient, path: Path, digest: str) -> str:
    """Send a file; why the server does not have it, empty where it does."""
    try:
        client.upload(path, digest, patience_s=0)
    except FileNotFoundError:
        return "its file is missing in the store"
    except RefusedError as problem:
        if problem.problem.code != _TOO_LARGE:
            raise
        return f"the server did not take it: {problem.problem.message}"
    return ""


def refused_in_words(index: int, problem: UsageError) -> str:
    """What a person must know of a result that a server will not take."""
    return f"the server does not take the result of job {index}: {problem.problem.message}; it is kept here"


@contextmanager
def reporting_to(
    client: FleetClient, store: Store, campaign: str, folder: Path, notify: Callable[[str], None]
) -> Iterator[ServerReporter]:
    """Report a campaign to a server for as long as it is followed.

    Args:
        notify: shows what a person should know; called only by the thread that calls this.
    """
    reporter = ServerReporter(client, store, campaign, folder, notify)
    reporter.start()
    try:
        yield reporter
    except BaseException:
        reporter.close(HURRY_S)
        raise
    reporter.close(LAST_S)


class ServerReporter:
    """One campaign and one server."""

    def __init__(
        self, client: FleetClient, store: Store, campaign: str, folder: Path, notify: Callable[[str], None]
    ) -> None:
        self._client, self._store, self._campaign, self._notify = client, store, campaign, notify
        self._record = read_record(folder, client.url)
        self._lock = threading.Condition()
        self._standings: dict[int, JobProgress] = {}
        self._sent: dict[int, JobProgress] = {}
        self._ended: dict[int, None] = {}
        """Jobs whose result is to be sent, in order."""
        self._taken: int | None = None
        """The job whose result is being sent."""
        self._known = self._closing = self._hurries = self._given_up = False
        self._failures = 0
        self._saved_s = self._reported_s = 0.0
        self._notes: deque[str] = deque()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    # By the thread that follows the campaign

    def start(self) -> None:
        """Begin with what the store has already."""
        self._record.save()
        self.all_ended()
        self._thread.start()

    def progressed(self, standings: Iterable[JobProgress]) -> None:
        """How jobs stand now; returns immediately."""
        progress = {standing.index: standing for standing in standings}
        with self._lock:
            self._standings |= progress
            self._lock.notify_all()
        self._say()

    def ended(self, index: int) -> None:
        """The store has the result of a job; returns immediately."""
        with self._lock:
            self._ended[index] = None
            self._standings.pop(index, None)
            self._lock.notify_all()
        self._say()

    def all_ended(self) -> None:
        """Look once more whether the server has every result as the store has it."""
        _, stored = self._store.campaign(self._campaign)
        with self._lock:
            self._ended |= dict.fromkeys(stored_job.job.index for stored_job in stored if stored_job.state in FINAL)
            self._lock.notify_all()

    def left(self, words: str) -> None:
        """Note at every job that has not ended that no process follows it for now."""
        _, stored = self._store.campaign(self._campaign)
        with self._lock:
            for stored_job in stored:
                if stored_job.state not in FINAL:
                    index, state = stored_job.job.index, "running" if stored_job.state == "running" else "waiting"
                    progress = self._standings.get(index) or JobProgress(index, cast("Stands", state))
                    note = "; ".join(text for text in (progress.note, words) if text)
                    self._standings[index] = replace(progress, note=note)
            self._lock.notify_all()

    def close(self, within_s: float) -> None:
        """Wait a while until everything is sent, and say what is not; a server that is away is tried once more."""
        with self._lock:
            self._failures, self._hurries = 0, True
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._is_done() or self._failures > 0, within_s)
            whole, left = self._is_done(), len({*self._ended, self._taken} - {None})
            self._closing = True
            self._lock.notify_all()
        self._thread.join(HURRY_S)
        self._record.save()
        self._say()
        if not whole:
            what = f"{left} result{'' if left == 1 else 's'}" if left else "how this campaign stands"
            self._notify(
                f"the server {self._client.url} has not received {what}; "
                f"`assay campaigns attach {self._campaign}` sends it later"
            )

    def _say(self) -> None:
        while self._notes:
            self._notify(self._notes.popleft())

    # By the thread

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closing or not self._is_done())
                if self._closing:
                    return
            try:
                self._step()
            except RefusedError as problem:
                self._refuse(problem)
            except AwayError as problem:
                self._failed(f"{problem.problem.message}; the campaign continues, and the server gets the rest later")
            except Exception as problem:  # the store is busy, a file cannot be read: the campaign has its own words
                said = problem.problem.message if isinstance(problem, AssayError) else str(problem)
                self._failed(f"nothing can be sent to the server for now: {said}")
            else:
                with self._lock:
                    if self._failures:
                        self._notes.append(f"the server {self._client.url} is back, and gets what it missed")
                    self._failures = 0
            with self._lock:
                if self._failures and self._taken is not None:
                    self._ended.setdefault(self._taken)
                self._taken = None
                self._lock.notify_all()
                wait_s = back_off_s(self._failures, _LONGEST_WAIT_S) if self._failures else 0.0
                self._lock.wait_for(lambda: self._closing or self._hurries, wait_s)
                self._hurries = False

    def _step(self) -> None:
        """Tell one thing: the campaign, how its jobs stand, or one result."""
        if not self._known:
            summary, stored = self._store.campaign(self._campaign)
            document = Listing(self._store.engine).campaign_document(self._campaign)
            jobs = tuple(stored_job.job for stored_job in stored)
            there = Elsewhere(summary.engine, summary.benchmark, summary.created_at, document, jobs, summary.labels)
            if self._client.know(self._campaign, there).new:
                self._record.sent.clear()  # it may have known the campaign, and lost it
            self._known = True
            return
        with self._lock:
            changed = self._changed()
        if changed and time.monotonic() - self._reported_s >= _BETWEEN_S:
            self._client.stand(self._campaign, JobProgressReport(tuple(changed.values())))
            self._reported_s = time.monotonic()
            with self._lock:
                self._sent |= changed
        elif (index := self._next()) is not None:
            result = result_of(self._store, f"{self._campaign}-job-{index}")
            digest = digest_of(result)
            if self._record.sent.get(index) != digest:
                try:
                    send_result(self._client, self._store, self._campaign, result)
                except RefusedError as problem:
                    if _may_change(problem) or problem.status == 404:
                        raise
                    self._notes.append(refused_in_words(index, problem))
                else:
                    self._record.sent[index] = digest
            if time.monotonic() - self._saved_s > _SAVE_S:
                self._saved_s = time.monotonic()
                self._record.save()
        else:
            with self._lock:
                self._lock.wait_for(lambda: self._closing or bool(self._ended), _BETWEEN_S)

    def _next(self) -> int | None:
        """Take a job whose result is to be sent; its result may change again meanwhile."""
        with self._lock:
            self._taken = next(iter(self._ended), None)
            if self._taken is not None:
                del self._ended[self._taken]
            return self._taken

    def _changed(self) -> dict[int, JobProgress]:
        return {index: standing for index, standing in self._standings.items() if self._sent.get(index) != standing}

    def _is_done(self) -> bool:
        return self._given_up or (self._known and self._taken is None and not self._ended and not self._changed())

    def _failed(self, note: str) -> None:
        with self._lock:
            if not self._failures:
                self._notes.append(note)
            self._failures += 1

    def _refuse(self, problem: RefusedError) -> None:
        """A token may be replaced while the campaign runs; what else a server refuses, it refuses for good."""
        if _may_change(problem):
            self._failed(f"the server takes no reports: {problem.problem.message}; {problem.problem.try_}")
            return
        with self._lock:
            self._given_up = True
            said = problem.problem
            self._notes.append(f"no more is sent to the server: {said.message}{f'; {said.try_}' if said.try_ else ''}")


def _may_change(problem: RefusedError) -> bool:
    """Whether a refusal may end: a token may be replaced, and a proxy may have answered in place of the server."""
    return problem.status in _NOT_NOW or problem.problem.code == f"http-{problem.status}"

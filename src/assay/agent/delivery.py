"""Results and given-back leases on their way to the server: tried for ever, and kept until acknowledged."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from assay.agent.attempt import failed_result
from assay.agent.heartbeat import HeldLeases, ProgressSender
from assay.agent.spool import Spool, SpoolEntry
from assay.clock import SYSTEM_CLOCK, Clock
from assay.documents import from_json
from assay.errors import AssayError, Problem
from assay.place.fleet.client import AwayError, FleetClient, RefusedError
from assay.place.fleet.protocol import Delivered, Release
from assay.place.fleet.transport import back_off_s
from assay.plan.job import Job
from assay.units import show_bytes

_log = logging.getLogger("assay.agent")
# A server that misses samples which were just sent is broken in a way that retries do not fix.
_MISSING_TRIES = 5
_POLL_S = 60.0
_NOT_NOW = (401, 403)  # a token may be replaced; a result cannot be measured again for nothing


@dataclass(slots=True)
class _Parcel:
    """Something on its way."""

    entry: SpoolEntry
    release: Release | None = None  # only where the disk had no room for it
    tries: int = 0


class Delivery:
    """Delivers from a thread of its own, so that a server that is away holds up nothing else."""

    def __init__(
        self,
        client: FleetClient,
        spool: Spool,
        leases: HeldLeases,
        progress: ProgressSender,
        ended: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._clock = clock
        self._spool = spool
        self._leases = leases
        self._progress = progress
        self._ended = ended
        self._parcels: list[_Parcel] = []
        self._lock = threading.Condition()
        self._failures = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="delivery", daemon=True).start()

    def put(self, entry: SpoolEntry, release: Release | None = None) -> None:
        """Take an attempt that has ended: its result, or its release."""
        self._leases.delivering(entry.held)
        with self._lock:
            self._parcels.append(_Parcel(entry, release))
            self._lock.notify_all()

    def give_back(self, entry: SpoolEntry, release: Release) -> None:
        """Give a lease back, also across a crash of the agent where the disk has room to say so."""
        noted = self._spool.give_back(entry, release)
        self.put(entry, None if noted else release)

    def waiting(self) -> list[SpoolEntry]:
        with self._lock:
            return [parcel.entry for parcel in self._parcels]

    def wait_tried(self, entry: SpoolEntry, timeout_s: float) -> None:
        """Wait until an attempt is delivered, or the server turns out to be away."""
        with self._lock:
            self._lock.wait_for(
                lambda: self._failures > 0 or all(parcel.entry != entry for parcel in self._parcels), timeout_s
            )

    def _run(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                if not self._lock.wait_for(lambda: bool(self._parcels), _POLL_S):
                    continue
                parcel = self._parcels[0]
            delivered = self._try(parcel)
            with self._lock:
                if delivered:
                    self._failures = 0
                    self._parcels.remove(parcel)
                else:
                    self._failures += 1
                    self._parcels.append(self._parcels.pop(0))  # one that sticks must not hold up the others
                self._lock.notify_all()
                wait_s = 0.0 if delivered else back_off_s(self._failures)
            if wait_s:
                self._ended.wait(wait_s)

    def _try(self, parcel: _Parcel) -> bool:
        """Deliver once; True when nothing is left to do."""
        entry = parcel.entry
        try:
            self._hand_over(parcel)
        except AwayError as problem:
            _log.warning("cannot deliver %s: %s; kept and tried again", entry, problem.problem.message)
            return False
        except RefusedError as problem:
            if not self._is_final(parcel, problem):
                return False
        except Exception as problem:  # an unreadable file, an answer that cannot be read, a defect here
            parcel.tries += 1
            if entry.folder.exists():
                _log.error("cannot deliver %s: %s; kept and tried again", entry, problem)
                return False
            _log.error("%s is gone from the disk: %s", entry, problem)
        self._leases.done(entry.held)
        return True

    def _hand_over(self, parcel: _Parcel) -> None:
        entry = parcel.entry
        self._progress.finish(entry.held)
        release = parcel.release or entry.release()
        if release is not None:
            self._client.release(entry.job, entry.fence, release)
            reason = release.reason.partition("\n")[0]
            _log.info("released %s crashed=%s reason=%r", entry, release.crashed, reason)
        else:
            for sample in entry.samples():
                self._client.upload(sample, sample.stem, patience_s=0)
            for file in entry.files():
                self._upload(entry, file)
            answer = self._deliver(entry)
            _log.info("delivered %s answer=%s", entry, answer.delivery)
        self._spool.forget(entry)

    def _deliver(self, entry: SpoolEntry) -> Delivered:
        """Hand the result over; in place of one that is too large for the server, a failed one that says so."""
        try:
            return self._client.deliver(entry.job, entry.fence, entry.agent, entry.result)
        except RefusedError as problem:
            if problem.problem.code != "too-large":
                raise
            # Measured again it would be as large: the job fails once, with the reason.
            job = from_json(Job, entry.document.read_bytes(), source=str(entry.document))
            size = show_bytes(entry.result.stat().st_size)
            too_large = Problem(
                "result-too-large",
                f"it was measured, and its result of {size} is too large for the server: {problem.problem.message}",
                try_="have the program report fewer metrics, or raise --max-result-mb of the server",
            )
            place = self._spool.replace_result(entry, failed_result(job, too_large, self._clock, "deliver"))
        _log.error("the server will not take the result of %s for its size; kept in %s", entry, place)
        return self._client.deliver(entry.job, entry.fence, entry.agent, entry.result)

    def _upload(self, entry: SpoolEntry, file: Path) -> None:
        """Send a file that a run left; one that is too large for the server is no reason to lose the result."""
        try:
            self._client.upload(file, file.name, patience_s=0)
        except RefusedError as problem:
            if problem.problem.code != "too-large":
                raise
            _log.warning("left out job=%s file=%s: %s", entry.job, file.name[:12], problem.problem.message)
            entry.leave_out(file.name, f"the server did not take it: {problem.problem.message}")

    def _is_final(self, parcel: _Parcel, problem: RefusedError) -> bool:
        """Whether a result will never be taken; then it is put aside and the lease given back."""
        entry, said = parcel.entry, problem.problem
        parcel.tries += 1
        _log.warning("refused %s [%s] %s", entry, said.code, said.message)
        if problem.status in _NOT_NOW or said.code == f"http-{problem.status}":
            return False  # not the server's own word: something stands between us, or the token must be replaced
        if said.code == "missing-artefact" and parcel.tries < _MISSING_TRIES:
            return False
        _log.error("the server will not take %s; kept in %s", entry, self._spool.set_aside(entry))
        reason = f"the server refused the result: {said.message}"
        try:
            self._client.release(entry.job, entry.fence, Release(entry.agent, reason, crashed=True))
        except AssayError as away:
            _log.warning("cannot release job=%s: %s", entry.job, away.problem.message)
        return True

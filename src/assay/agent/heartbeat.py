"""The heartbeat: a thread that tells the server what the agent holds, and tells the agent what it has lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from assay.agent.board import Board
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import AssayError
from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import Enrolled, HeartbeatAnswer
from assay.place.fleet.transport import back_off_s

_log = logging.getLogger("assay.agent")
# Jobs of a moment change the state often; the server learns of those from the leases themselves.
_AT_LEAST_S = 1.0


class Pulse:
    """Beats also while the agent measures: the measuring happens in other processes. Knows no calendar."""

    def __init__(
        self,
        client: FleetClient,
        board: Board,
        enrolled: Enrolled,
        enrol: Callable[[], Enrolled],
        ended: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._board = board
        self._enrol = enrol
        self._ended = ended
        self._clock = clock
        self._failures = 0
        self.enrolled = enrolled

    def start(self) -> None:
        """Begin beating."""
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._board.changed.clear()
            began_s = self._clock.monotonic_s()
            try:
                self.beat()
            except Exception:  # a defect of ours must not silence the agent
                self._failures += 1
                _log.exception("heartbeat failed")
            self._rest(began_s)

    def beat(self) -> None:
        """Send one heartbeat and do what its answer says."""
        sent = self._board.beat()
        try:
            self._obey(self._client.heartbeat(self.enrolled.agent, sent))
        except RefusedError as problem:
            self._failures += 1
            if problem.problem.code == "unknown-agent" or problem.status in (404, 410):
                self._come_back(problem.problem.message)
            else:
                _log.warning("heartbeat refused: [%s] %s", problem.problem.code, problem.problem.message)
        except AssayError as problem:
            self._failures += 1
            _log.log(
                logging.WARNING if self._failures == 1 else logging.DEBUG,
                "heartbeat failed: %s; trying again",
                problem.problem.message,
            )
        else:
            if self._failures:
                _log.info("the server is back")
            self._failures = 0

    def _obey(self, answer: HeartbeatAnswer) -> None:
        for held in answer.lost:
            _log.info("lease lost job=%s fence=%d", held.job, held.fence)
        self._board.lost(answer.lost)
        if answer.draining != self._board.draining:
            self._board.draining = answer.draining
            _log.info("the server gives this agent %s", "no further jobs" if answer.draining else "jobs again")
        if answer.leave:
            self._come_back("the server removed it")

    def _come_back(self, why: str) -> None:
        """Enrol again; leases that were given to others meanwhile are lost with the next beat."""
        _log.warning("the server does not know this agent (%s): enrolling again", why)
        try:
            self.enrolled = self._enrol()
        except AssayError as problem:
            _log.warning("cannot enrol: %s", problem.problem.message)

    def _rest(self, began_s: float) -> None:
        """Wait for the next beat; less when something changed, more when nobody answers."""
        every_s = self.enrolled.heartbeat_s
        if self._failures:
            self._ended.wait(back_off_s(self._failures, every_s))
            return
        self._board.changed.wait(every_s)
        spent_s = self._clock.monotonic_s() - began_s
        if spent_s < min(_AT_LEAST_S, every_s):
            self._ended.wait(min(_AT_LEAST_S, every_s) - spent_s)

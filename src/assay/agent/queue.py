"""Jobs taken from the queue in Redis directly, and confirmed by the server: its word counts, the queue only sorts."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from assay.agent.settings import RedisPlace
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import AssayError
from assay.place.broker import Broker, Taken
from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import Claim, LeaseGiven, LeaseRequest

_log = logging.getLogger("assay.agent")
# Which queues suit this agent changes with every new kind of job; the server is asked this often.
_ASK_AGAIN_S = 5.0
_LATER_S = 1.0


class QueueSource:
    """Waits at the queue; the server is asked which queues suit, and for every job whether it is ours."""

    def __init__(
        self, client: FleetClient, place: RedisPlace, *, broker: Broker | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Nothing is sent yet.

        Raises:
            UsageError: if the package for Redis is missing.
        """
        if broker is None:
            from assay.place.redis_broker import RedisBroker

            broker = RedisBroker(place.url)
        self._broker = broker
        self._client = client
        self._clock = clock
        self._told = False

    def next(self, agent: str, device: str, wait_s: float, stopping: threading.Event) -> LeaseGiven | None:
        """Wait for a job of a queue that suits, and claim it."""
        until_s = self._clock.monotonic_s() + wait_s
        while (left_s := until_s - self._clock.monotonic_s()) > 0 and not stopping.is_set():
            queues = self._queues(agent, device)
            if not queues:
                # Nothing known suits; the server says when that changes, and gives the first such job out itself.
                return self._client.lease(agent, LeaseRequest(wait_s=min(left_s, _ASK_AGAIN_S), device=device))
            for one in self._broker.wait(agent, queues, min(left_s, _ASK_AGAIN_S)):
                if (lease := self._claim(agent, one)) is not None:
                    return lease
        return None

    def _queues(self, agent: str, device: str) -> tuple[str, ...]:
        try:
            return self._client.queues(agent, device)
        except RefusedError as problem:
            if problem.problem.code == "unknown-agent" or problem.status not in (404, 405):
                raise
            if not self._told:
                _log.warning("the server does not say which queues suit this agent; it is asked for jobs itself")
            self._told = True
            return ()

    def _claim(self, agent: str, taken: Taken) -> LeaseGiven | None:
        try:
            lease = self._client.claim(agent, Claim(taken.job, taken.fence))
        except AssayError:
            with suppress(AssayError):  # if the queue is away too, it gives the job out again by itself
                self._broker.put_back(taken, _LATER_S)
            raise
        with suppress(AssayError):
            self._broker.ack(taken)
        if lease is None:
            _log.info("job=%s fence=%d from the queue is not ours", taken.job, taken.fence)
        return lease

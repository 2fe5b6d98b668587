"""Slots: one loop each that takes a job from the server or from Redis, has it measured, and hands it over."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.agent.attempt import DISK_CODES, Attempt, AttemptEnd, AttemptTools
from assay.agent.delivery import Delivery
from assay.agent.identity import RedisAddress
from assay.agent.spool import SpoolEntry
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import AssayError
from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import Claim, LeaseGiven, LeaseRequest, Release
from assay.place.fleet.transport import back_off_s
from assay.place.leasing import JobClaim
from assay.place.needs import device_of
from assay.plan.job import Job
from assay.spec.section import split_index

if TYPE_CHECKING:
    from assay.place.redis_broker import RedisBroker


_log = logging.getLogger("assay.agent")
POLL_S = 30.0
_ROOM_CHECK_S = 5.0
_LONGEST_WAIT_S = 10.0
# Sending samples while the next job is measured would disturb it; a server that is slow for longer must not hold us up.
_DELIVER_FIRST_S = 60.0
_INDEXED = ("cuda", "tensorrt")
_STOPPED = {"lost": "the lease was lost", "given back": "the agent was asked to stop"}
# Which queues suit this agent changes with every new kind of job; the server is asked this often.
_RETRY_S = 5.0
_LATER_S = 1.0


@dataclass(frozen=True, slots=True)
class ServerQueue:
    """Jobs that the server gives out itself."""

    client: FleetClient

    def next(self, agent: str, device: str, wait_s: float, stopping: threading.Event) -> LeaseGiven | None:  # noqa: ARG002
        """Ask the server, which holds the request until it has a job."""
        return self.client.lease(agent, LeaseRequest(wait_s=wait_s, device=device))


class DeviceLocks:
    """The numbered devices of this machine: one measurement on each at a time."""

    def __init__(self) -> None:
        self._locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    def hold(self, index: int | None) -> AbstractContextManager[object]:
        """Wait for a device and keep it."""
        with self._guard:
            return nullcontext() if index is None else self._locks[index]


class Slot:
    """One measurement at a time, on one device or on the whole machine."""

    def __init__(
        self,
        device: str,
        *,
        server: str,
        agent: Callable[[], str],
        source: JobSource,
        tools: AttemptTools,
        delivery: Delivery,
        devices: DeviceLocks,
        stopping: threading.Event,
        before: Callable[[], None] = lambda: None,
        after: Callable[[AttemptEnd], None] = lambda _: None,
    ) -> None:
        """What a slot works with.

        Args:
            device: such as `cuda:1`; empty for the whole machine.
            agent: the name under which the server knows this agent now.
        """
        self.device = device
        self._server = server
        self._agent = agent
        self._source = source
        self._tools = tools
        self._delivery = delivery
        self._devices = devices
        self._stopping = stopping
        self._before = before
        self._after = after
        self._failures = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"slot {self.device or 'machine'}", daemon=True).start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._before()
                self.step()
            except AssayError as problem:
                self._failures += 1
                level = logging.WARNING if self._failures == 1 else logging.DEBUG
                _log.log(level, "no job could be fetched: %s; trying again", problem.problem.message)
                self._stopping.wait(back_off_s(self._failures, _LONGEST_WAIT_S))
            except Exception:
                # A defect here must not silence the slot for ever.
                self._failures += 1
                _log.exception("slot failed")
                self._stopping.wait(back_off_s(self._failures + 3))

    def step(self) -> None:
        if shortage := self._shortage():
            self._tools.leases.fault("disk", shortage)
            self._stopping.wait(_ROOM_CHECK_S)
            return
        self._tools.leases.fault("disk", "")
        kind = split_index(self.device)[0] if self.device else ""
        lease = self._source.next(self._agent(), kind, POLL_S, self._stopping)
        self._failures = 0
        if lease is not None:
            self._work(lease)

    def _shortage(self) -> str:
        shortage = self._tools.spool.shortage()
        if shortage:
            self._tools.inputs.empty()
            shortage = self._tools.spool.shortage()
        return shortage

    def _work(self, lease: LeaseGiven) -> None:
        job, agent = lease.job, self._agent()
        _log.info("leased job=%s fence=%d", job.id, lease.fence)
        entry = self._tools.spool.entry(self._server, agent, job.id, lease.fence)
        index, environment = self._visible(job)
        attempt = Attempt(job, entry, self._tools, environment)
        # Before anything else: a caller that asks whether this agent is idle must see it.
        self._tools.leases.measuring(entry.held, lambda kind: attempt.stop(AttemptEnd(kind, _STOPPED[kind])))
        ended = self._begin(job, entry)
        if ended is None:
            with self._devices.hold(index):
                ended = attempt.run()
        self._hand_over(entry, ended)
        self._after(ended)

    def _begin(self, job: Job, entry: SpoolEntry) -> AttemptEnd | None:
        """Put the lease on disk; say how the attempt ended where it cannot even begin."""
        if self._stopping.is_set():
            return AttemptEnd("given back", _STOPPED["given back"])
        try:
            self._tools.spool.begin(entry, job)
        except OSError as problem:
            return AttemptEnd("given back", f"the agent cannot write: {problem.strerror}", "disk-full")
        return None

    def _visible(self, job: Job) -> tuple[int | None, Mapping[str, str]]:
        """Which numbered device the job will use, and how it is made to.

        A job that names a number itself gets that one, of all; else it sees the slot's own alone.
        """
        kind, index = split_index(self.device)
        if kind not in _INDEXED:
            return None, {}
        asked = device_of(job) or ""
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if ":" in asked and split_index(asked)[0] in _INDEXED:
            return split_index(asked)[1], order
        return index, {**order, "CUDA_VISIBLE_DEVICES": str(index)}

    def _hand_over(self, entry: SpoolEntry, ended: AttemptEnd) -> None:
        if ended.kind == "lost":
            _log.info("stopped %s: %s", entry, ended.reason)
            self._tools.spool.forget(entry)
            self._tools.leases.done(entry.held)
            return
        if ended.kind == "result":
            self._delivery.put(entry)
        else:
            self._tools.spool.strip(entry)
            shortage = self._shortage() if ended.code in DISK_CODES else ""
            self._tools.leases.fault("disk", shortage)
            # A job that fills a disk which has room without it would come back for ever.
            does_not_fit = ended.code in DISK_CODES and not shortage
            release = Release(entry.agent, ended.reason, crashed=ended.kind == "crashed" or does_not_fit)
            self._delivery.give_back(entry, release)
        self._delivery.wait_tried(entry, _DELIVER_FIRST_S)


class RedisSource:
    """Waits at the queue; the server is asked which queues suit, and for every job whether it is ours."""

    def __init__(
        self,
        client: FleetClient,
        place: RedisAddress,
        *,
        broker: RedisBroker | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Nothing is sent yet."""
        if broker is None:
            from assay.place import redis_broker

            broker = redis_broker.RedisBroker(place.url)
        self._broker = broker
        self._client = client
        self._clock = clock
        self._logged = False

    def next(self, agent: str, device: str, wait_s: float, stopping: threading.Event) -> LeaseGiven | None:
        """Wait for a job of a queue that suits, and claim it."""
        until_s = self._clock.monotonic_s() + wait_s
        while (left_s := until_s - self._clock.monotonic_s()) > 0 and not stopping.is_set():
            queues = self._queues(agent, device)
            if not queues:
                # Nothing known suits; the server says when that changes, and gives the first such job out itself.
                return self._client.lease(agent, LeaseRequest(wait_s=min(left_s, _RETRY_S), device=device))
            for taken in self._broker.wait(agent, queues, min(left_s, _RETRY_S)):
                if (lease := self._claim(agent, taken)) is not None:
                    return lease
        return None

    def _queues(self, agent: str, device: str) -> tuple[str, ...]:
        try:
            return self._client.queues(agent, device)
        except RefusedError as problem:
            if problem.problem.code == "unknown-agent" or problem.status not in (404, 405):
                raise
            if not self._logged:
                _log.warning("the server does not say which queues suit this agent; it is asked for jobs itself")
            self._logged = True
            return ()

    def _claim(self, agent: str, taken: JobClaim) -> LeaseGiven | None:
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


JobSource = ServerQueue | RedisSource

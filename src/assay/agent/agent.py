"""The agent: puts its threads together, picks up what an earlier one left, and ends in order."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from assay.agent.attempt import AttemptEnd, AttemptTools, InputCache, ProcessExecutor, last_lines
from assay.agent.delivery import Delivery
from assay.agent.heartbeat import HeartbeatLoop, HeldLeases, ProgressSender
from assay.agent.host import HostFacts, enrolment_of, offered_profile, probe_host
from assay.agent.identity import AgentSettings, Identity, hold_folder, identity
from assay.agent.slots import DeviceLocks, JobSource, RedisSource, ServerQueue, Slot
from assay.agent.spool import Spool, SpoolEntry
from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import AssayError
from assay.place.fleet.client import AwayError, FleetClient
from assay.place.fleet.protocol import Enrolled, Enrolment, Release
from assay.place.fleet.transport import back_off_s
from assay.run.policy import JOB_ALLOW
from assay.run.processes import sweep
from assay.spec.references import VARIABLE as JOB_ENV

_log = logging.getLogger("assay.agent")
_RECHECK_S = 600.0
_LAST_DELIVERY_S = 10.0
INTERRUPTED = 130


@dataclass(slots=True)
class _Running:
    """The parts of an agent that is enrolled."""

    heartbeat: HeartbeatLoop
    delivery: Delivery
    slots: tuple[Slot, ...]


class Agent:
    """One agent for one server. `run` blocks; `request_stop` may be called from a signal or another thread."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        executor: ProcessExecutor | None = None,
        clock: Clock = SYSTEM_CLOCK,
        probe: Callable[[], HostFacts] = probe_host,
    ) -> None:
        self.settings = settings
        self.leases = HeldLeases()
        self._clock = clock
        self._probe = probe
        self._executor = executor or ProcessExecutor()
        self._client = FleetClient(settings.server, settings.token, ca=settings.ca, verify=settings.verify)
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._stop_requests = 0
        self._interrupted = False
        self._wake = threading.Event()
        self._identity: Identity | None = None
        self._facts: HostFacts | None = None
        self._checked_s = 0.0
        self._check_soon = False
        self._gate = threading.Lock()
        self._running: _Running | None = None

    def request_stop(self, *, interrupted: bool = False) -> None:
        """Take no further job; asked twice, give the running one back."""
        self._stop_requests += 1
        self._interrupted = self._interrupted or interrupted
        self._stopping.set()
        self._wake.set()

    def run(self) -> int:
        """Work until asked to stop; return the exit code."""
        redis = self.settings.redis
        source = ServerQueue(self._client) if redis is None else RedisSource(self._client, redis)
        lock = hold_folder(self.settings.state)
        try:
            self._begin()
            enrolled = self._enrol_patiently()
            if enrolled is None:
                return INTERRUPTED if self._interrupted else 0
            self._running = self._start(enrolled, source)
            _wait(self._wake)
            return self._end()
        finally:
            # The threads end by themselves; one may still wait for an answer, so the client is not closed under it.
            self._ended.set()
            self.leases.changed.set()
            os.close(lock)

    def enrol(self) -> Enrolled:
        """Make this device known to the server, once."""
        if self._facts is None:
            self._begin()
        return self._client.enroll(self._enrolment(), patience_s=0)

    def status(self) -> dict[str, JsonValue]:
        beat = self.leases.beat()
        running = self._running
        return {
            "server": self._client.url,
            "agent": running.heartbeat.enrolled.agent if running else None,
            "state": beat.state,
            "note": beat.note,
            "draining": self.leases.draining,
            "held": [{"job": held.job, "fence": held.fence} for held in beat.held],
            "undelivered": [entry.job for entry in running.delivery.waiting()] if running else [],
        }

    # Beginning

    def _begin(self) -> None:
        from assay.hardware.machine import machine_id

        self._identity = identity(self.settings.state, machine_id())
        if self._identity.note:
            _log.warning("%s", self._identity.note)
        self._facts = self._probe()
        self._checked_s = self._clock.monotonic_s()
        if self.settings.devices and not any(offered_profile(self._facts, self.settings).devices.values()):
            _log.warning("no runtime here can use %s", ", ".join(self.settings.devices))

    def _enrol_patiently(self) -> Enrolled | None:
        """Enrol as soon as the server is there; None if asked to stop before. A refusal is for the user to see."""
        failures = 0
        while not self._stopping.is_set():
            try:
                enrolled = self.enrol()
            except AwayError as problem:
                failures += 1
                wait_s = back_off_s(failures)
                said = problem.problem.message
                _log.warning("cannot enrol: %s; next try in %.1f s, until this agent is stopped", said, wait_s)
                self._stopping.wait(wait_s)
            else:
                _log.info("enrolled agent=%s action=%s server=%s", enrolled.agent, enrolled.action, self._client.url)
                return enrolled
        return None

    def _enrolment(self) -> Enrolment:
        if self._identity is None or self._facts is None:
            raise AssayError("the agent has not looked at its machine yet")
        return enrolment_of(self._identity.id, self._facts, self.settings)

    def _start(self, enrolled: Enrolled, source: JobSource) -> _Running:
        settings = self.settings
        spool = Spool(settings.state, min_free=settings.min_free)
        progress = ProgressSender(self._client, lambda held: self.leases.lost((held,)), self._ended)
        delivery = Delivery(self._client, spool, self.leases, progress, self._ended, self._clock)
        self._recover(spool, delivery, enrolled.agent)
        heartbeat = HeartbeatLoop(self._client, self.leases, enrolled, self.enrol, self._ended, self._clock)
        inputs = InputCache(settings.state / "inputs", self._client, settings.cache_bytes)
        # By these a price of the benchmark file is found.
        price_labels = {**settings.labels, **({"name": settings.name} if settings.name else {})}
        labels = ",".join(f"{label}={value}" for label, value in price_labels.items())
        environment = {
            "ASSAY_URL_POLICY": settings.url_policy,
            "ASSAY_LABELS": labels,
            JOB_ALLOW: ",".join(sorted(settings.allow)),
            JOB_ENV: ",".join(sorted(settings.allow_env)),
        }
        tools = AttemptTools(
            self._executor, spool, self.leases, progress, inputs, settings.allow, environment, self._clock
        )
        devices = DeviceLocks()

        def after(ended: AttemptEnd) -> None:
            self._check_soon = self._check_soon or ended.code in ("device", "runtime")

        slots = tuple(
            Slot(
                device,
                server=self._client.url,
                agent=lambda: heartbeat.enrolled.agent,
                source=source,
                tools=tools,
                delivery=delivery,
                devices=devices,
                stopping=self._stopping,
                before=self._check_again,
                after=after,
            )
            for device in settings.devices or ("",)
        )
        progress.start()
        delivery.start()
        heartbeat.start()
        for slot in slots:
            slot.start()
        return _Running(heartbeat, delivery, slots)

    def _recover(self, spool: Spool, delivery: Delivery, agent: str) -> None:
        """Pick up what an earlier agent left in the state folder."""
        others = 0
        for entry in spool.entries():
            if entry.tag and (left := sweep(entry.tag)):
                _log.warning("ended %d processes that an earlier agent left behind", left)
            if entry.server != self._client.url:
                others += 1
            elif entry.agent != agent:
                _log.warning("job=%s belongs to %s; put aside in %s", entry.job, entry.agent, spool.set_aside(entry))
            else:
                self._take_up(entry, delivery)
        if others:
            _log.warning("%d attempts for other servers are kept; start the agent for those to deliver them", others)

    def _take_up(self, entry: SpoolEntry, delivery: Delivery) -> None:
        if entry.result.is_file() or entry.release() is not None:
            _log.info("found %s, not yet delivered", entry)
            delivery.put(entry)
            return
        reason = f"the agent was ended while it measured\n{last_lines(entry.log)}".strip()
        delivery.give_back(entry, Release(entry.agent, reason, crashed=True))

    # While it runs

    def _check_again(self) -> None:
        """See whether the machine still offers what it did: now and then, and never beside a measurement."""
        due = self._check_soon or self._clock.monotonic_s() - self._checked_s > _RECHECK_S
        if not due or not self.leases.is_idle() or not self._gate.acquire(blocking=False):
            return
        try:
            self._check_soon, self._checked_s = False, self._clock.monotonic_s()
            before, self._facts = self._facts, self._probe()
            if before is None or before.profile != self._facts.profile:
                _log.info("what this machine offers has changed: enrolling again")
                self.enrol()
        finally:
            self._gate.release()

    # Ending

    def _end(self) -> int:
        """Let the running attempts end, or give them back; then deliver what can be delivered."""
        if not self.leases.is_idle():
            patience = f"continue for {self.settings.grace_s:.0f} s; ask again to give it back immediately"
            _log.info("stopping: the running attempt may %s", "end" if self.settings.finish else patience)
        left_s = self.settings.grace_s
        while not self.leases.wait_idle(0.2):
            left_s -= 0.2
            if self._stop_requests > 1 or (left_s <= 0 and not self.settings.finish):
                self.leases.stop_all()
                self.leases.wait_idle(10.0)
                break
        cut = self._stop_requests > 1
        if not self.leases.wait_clear(1.0 if cut else _LAST_DELIVERY_S):
            _log.warning("what is not delivered stays in %s", self.settings.state)
        return INTERRUPTED if cut and self._interrupted else 0


def _wait(event: threading.Event) -> None:
    """Wait so that signals get through; on Windows they do only between short waits."""
    while not event.wait(0.5 if sys.platform == "win32" else None):
        continue

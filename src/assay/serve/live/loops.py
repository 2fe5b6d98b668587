"""What has to happen as time goes by: leases run out, deadlines pass, schedules fire, files go to the object store.

Each step is guarded: a database that is away for a while is reported once and asked again, and never ends the server.

Schedules: every server looks every second. Several may look at the same schedules: the store gives each due time to one
of them, and a server that dies over one is replaced by another.

Object store: one that is away is asked again and again. What waits for it lies on disk, and no request waits with it.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
import anyio.to_thread

from assay.errors import AssayError, Problem, UsageError
from assay.plan.schedule import next_times, start_of
from assay.serve.live.notifications import AlertLoop
from assay.serve.observability import count_poisoned, log_event, log_failure
from assay.serve.state import ServerState, ServerStore
from assay.serve.submission import demand_files, keep, plan_submission
from assay.serve.web.problems import RequestProblem, Unavailable, is_away
from assay.store.objects.transfer import TransferReport
from assay.store.schedules import (
    FiringLostError,
    FiringObstacles,
    FiringRecord,
    Firings,
    OverlapError,
    ScheduleRecord,
    ScheduleTiming,
    read_schedule,
)
from assay.store.store import Store

EVERY_S = 1.0
# Many changes in a row are followed up together.
_HURRY_AT_MOST_EVERY_S = 0.05
# Redis is offered everything that is due this often, should an offer have been lost.
_OFFER_EVERY_S = 5.0
# A tick may be this late on a busy machine.
_LATE_S = 5.0


@dataclass(slots=True)
class Ticker:
    """Does what time demands, and follows up what requests changed, until it is cancelled."""

    state: ServerState
    _logged: set[str] = field(default_factory=set)
    _offered_s: float = 0.0
    _steps: int = 0
    _ticked_s: float | None = None
    """When leases were last looked at."""
    _disturbed_s: float = -math.inf
    """When the clock was set, or a time ended in which no agent could be heard."""
    _alerting: AlertLoop = field(init=False)

    def __post_init__(self) -> None:
        self._alerting = AlertLoop(self.state)

    async def run(self) -> None:
        self.state.wake.bind()
        next_s = 0.0
        while True:
            left_s = next_s - time.monotonic()
            if left_s <= 0:
                await anyio.to_thread.run_sync(self.tick)
                next_s = time.monotonic() + EVERY_S
            elif await self.state.wake.wait(left_s):
                await anyio.to_thread.run_sync(self.follow_up)
                await anyio.sleep(_HURRY_AT_MOST_EVERY_S)

    def tick(self) -> None:
        """Do everything once; runs in a thread."""
        if not self._step("open the store", self.state.ensure_open):
            self.state.metrics.database_up.set(0)
            return
        server_store = self.state.kept
        control = server_store.control
        until = control.lease_now()  # before it is found out whether time was lost: what is lost later counts then
        self._notice_step(server_store)
        if not self._notice_gap(server_store):
            return  # leases that no agent could renew must not end
        changed = self._expire(server_store, until)
        if self.state.clock.monotonic_s() - self._disturbed_s >= self.state.settings.silent_after_s:
            changed |= self._said("agents fell silent", lambda: control.mark_silent(self.state.settings.silent_after_s))
        changed |= self._said("deadline passed", control.enforce_deadlines)
        changed |= self._said("no agent can take jobs", control.fail_unplaceable)
        changed |= self._said("campaigns ended", control.settle_campaigns)
        if time.monotonic() - self._offered_s > _OFFER_EVERY_S or changed:
            self._step("reconcile the queue", server_store.queue.reconcile)
            self._offered_s = time.monotonic()
        self._step("look at alerts", self._alerting.step)
        if changed:
            self.state.dispatcher.nudge()
            self.state.feed.nudge()

    def follow_up(self) -> None:
        """Do immediately what a request made possible: end its campaign, offer its jobs; runs in a thread."""
        if not self._step("open the store", self.state.ensure_open):
            return
        server_store = self.state.kept
        if self._said("campaigns ended", server_store.control.settle_campaigns):
            self.state.feed.nudge()
        if self.state.offers_due:
            self.state.offers_due = False  # before: what comes meanwhile is offered the next time
            if not self._step("offer jobs", server_store.queue.offer):
                self.state.offers_due = True
            elif server_store.queue.broker:
                self.state.dispatcher.nudge()

    def _notice_step(self, kept: ServerStore) -> None:
        """After the calendar was set, count silence from now on: leases go by a clock that was not."""
        steps = kept.control.steady.steps
        if steps != self._steps and self._step("follow the clock", kept.control.after_step):
            self._steps = steps
            self._disturbed_s = self.state.clock.monotonic_s()
            self._alerting.listen_again()
            log_event("clock was set", level=logging.WARNING)

    def _notice_gap(self, kept: ServerStore) -> bool:
        """Renew all leases after a time in which no agent could: this process stood still, or the database was away.

        Returns False when they should be renewed and could not be.
        """
        now_s, last_s = self.state.clock.monotonic_s(), self._ticked_s
        settings = self.state.settings
        # The lease of an agent that is well has at least so long left.
        spare_s = min(settings.lease_s / 2, settings.lease_s - settings.heartbeat_s)
        gap_s = 0.0 if last_s is None else now_s - last_s
        if gap_s <= max(spare_s, _LATE_S):
            return True
        if not self._step("renew leases", kept.control.renew_all):
            return False
        self._disturbed_s = now_s
        self._alerting.listen_again()
        log_event("leases renewed", level=logging.WARNING, because=f"no agent could renew them for {gap_s:.0f} s")
        return True

    def _expire(self, kept: ServerStore, until: float) -> bool:
        metrics = self.state.metrics
        expired: list[str] = []
        answers = self._step("take leases back", lambda: expired.extend(kept.control.expire(until)))
        metrics.database_up.set(int(answers))
        if answers:
            self._ticked_s = self.state.clock.monotonic_s()
        if not expired:
            return False
        metrics.expired.inc(len(expired))
        self._step("count poisoned jobs", lambda: metrics.poisoned.inc(count_poisoned(kept.store.engine, expired)))
        log_event("leases expired", jobs=expired[:20], count=len(expired))
        return True

    def _said(self, event: str, step: Callable[[], Collection[object]]) -> bool:
        changes: list[object] = []
        self._step(event, lambda: changes.extend(step()))
        if changes:
            log_event(event, which=[str(change) for change in changes][:20], count=len(changes))
        return bool(changes)

    def _step(self, name: str, step: Callable[[], object]) -> bool:
        """Do one step; False when it could not be done now."""
        try:
            step()
        except Exception as problem:  # whatever it is, the next tick tries again
            if name not in self._logged:
                self._logged.add(name)
                if is_away(problem) and isinstance(problem, AssayError):
                    log_event("put off", level=logging.WARNING, step=name, because=problem.problem.message)
                else:
                    log_failure("step failed", problem, step=name)
            return False
        if name in self._logged:
            self._logged.discard(name)
            log_event("works again", step=name)
        return True


ORIGIN = "schedule"
# Each further try means that another campaign of the same schedule began in the moment between looking and submitting.
_TRIES = 5
_NEVER = float("inf")


def own_name() -> str:
    """What the history of a firing calls this server."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}"


@dataclass(slots=True)
class ScheduleLoop:
    """Fires schedules until it is cancelled."""

    state: ServerState
    server: str = field(default_factory=own_name)
    _begins: dict[str, tuple[tuple[float, float], float]] = field(default_factory=dict)
    """Schedule → its version, and when its next due time begins."""
    _away: bool = False

    async def run(self) -> None:
        while True:
            await anyio.to_thread.run_sync(self.tick)
            await anyio.sleep(EVERY_S)

    def tick(self) -> None:
        """Fire what is due; runs in a thread. Whatever goes wrong, the next one tries again."""
        try:
            self._fire_due()
        except Exception as problem:
            if not is_away(problem):
                log_failure("schedules failed", problem)
            elif not self._away:
                log_event("schedules wait", level=logging.WARNING, because="the database is away")
            self._away = is_away(problem)
        else:
            self._away = False

    def fire(self, firing: FiringRecord) -> FiringRecord:
        """Submit the campaign of a firing that was taken, unless something stands in its way; return the outcome."""
        firings = self.state.kept.firings
        try:
            self._submit(firings, firing)
        except FiringLostError:
            log_event("firing lost", schedule=firing.schedule, due=_shown(firing))
            return firings.get(firing.id) or firing
        except Exception as problem:
            if is_away(problem):
                raise
            firings.end(firing, "failed", _reason(problem, firing))
        ended = firings.get(firing.id) or firing
        campaign, outcome, reason = ended.campaign or "", ended.outcome, ended.reason
        due = _shown(ended)
        log_event("schedule fired", schedule=ended.schedule, due=due, outcome=outcome, campaign=campaign, reason=reason)
        return ended

    def _fire_due(self) -> None:
        firings = self.state.kept.firings
        for firing in firings.take_over(self.server):
            self.fire(firing)
        for firing in firings.take_waiting(self.server):
            self.fire(firing)
        watched = self.state.kept.schedules.watched()
        self._begins = {record.id: self._begin(record) for record in watched}
        now = self.state.clock.utc().timestamp()
        for schedule in watched:
            if self._begins[schedule.id][1] <= now:
                for firing in firings.take_due(schedule.id, self.server):
                    self.fire(firing)

    def _begin(self, timing: ScheduleTiming) -> tuple[tuple[float, float], float]:
        """When the next due time of a schedule begins; worked out once for each version of it."""
        version = (timing.considered_to, timing.changed_at)
        previous = self._begins.get(timing.id)
        if previous is not None and previous[0] == version:
            return previous
        try:
            schedule = read_schedule(timing.section, timing.name)
        except AssayError as problem:  # a time zone that is not known here; the others fire anyway
            log_event("schedule left out", level=logging.ERROR, schedule=timing.id, because=problem.problem.message)
            return version, _NEVER
        due = next_times(schedule, datetime.fromtimestamp(timing.considered_to, UTC), 1)
        return version, start_of(schedule, timing.name, due[0]).timestamp() if due else _NEVER

    def _submit(self, firings: Firings, firing: FiringRecord) -> None:
        for _ in range(_TRIES):
            try:
                record = self.state.kept.schedules.get(firing.schedule)
            except UsageError:
                raise FiringLostError from None  # it was removed meanwhile
            standing = firings.standing(firing)
            if standing.in_words and not self._may_go_on(firings, firing, record, standing):
                return
            if record.submission is None:
                raise AssertionError(record.id)  # it was read whole
            planned = plan_submission(self.state, record.submission, by=record.submitted_by, origin=ORIGIN)
            demand_files(self.state.kept, planned.plan)
            try:
                keep(self.state, planned, also=lambda session, campaign: firings.confirm(session, firing, campaign))
            except OverlapError:
                continue
            return
        firings.end(firing, "skipped", f"another campaign of this schedule began {_TRIES} times while this one did")

    def _may_go_on(
        self, firings: Firings, firing: FiringRecord, record: ScheduleRecord, standing: FiringObstacles
    ) -> bool:
        """Do as the schedule says about what stands in the way; whether the firing continues."""
        overlap = record.schedule.overlap
        if overlap == "skip":
            firings.end(firing, "skipped", f"{standing.in_words}; overlap is skip")
        elif overlap == "queue":
            firings.wait(firing, f"had to wait: {standing.in_words}")
        else:
            server_store = self.state.kept
            firings.replace(standing.before, firing)
            reason = f"the next firing of its schedule, due at {_shown(firing)}, took its place"
            for campaign in standing.campaigns:
                server_store.queue.withdraw(server_store.control.cancel_campaign(campaign, reason, by=ORIGIN))
            self.state.changed()
        return overlap == "cancel"


def _reason(problem: Exception, firing: FiringRecord) -> str:
    """Why a firing failed, for its history; what is our own mistake goes to the log."""
    if isinstance(problem, RequestProblem):
        return str(problem.detail)
    if isinstance(problem, AssayError):
        return "; ".join(detail.message for detail in problem.problems[:5])
    log_failure("firing failed", problem, schedule=firing.schedule)
    return "the server failed on it; its log says where"


def _shown(firing: FiringRecord) -> str:
    return datetime.fromtimestamp(firing.due, UTC).isoformat(timespec="seconds")


_END_WITHIN_S = 2.0
_POLL_S = 0.05
# An upload may be moved among the samples by the result that names it, which follows it within moments.
_SETTLED_S = 3.0
_TRIM_EVERY_S = 60.0


@dataclass(slots=True)
class ObjectUploader:
    """Does what waits for the object store until it is cancelled."""

    state: ServerState
    _stop: threading.Event = field(default_factory=threading.Event)
    _logged: Problem | None = None
    _trimmed_s: float = 0.0

    async def run(self) -> None:
        # A thread that is not waited for: a bucket that takes a connection and says nothing must not keep a server from
        # ending, and what is half sent is sent again by the next one.
        thread = threading.Thread(target=self._loop, name="assay-sending", daemon=True)
        thread.start()
        try:
            await anyio.sleep_forever()
        finally:
            self._stop.set()
            with anyio.move_on_after(_END_WITHIN_S, shield=True):
                while thread.is_alive():
                    await anyio.sleep(_POLL_S)

    def _loop(self) -> None:
        while not self._stop.is_set():
            self.tick()
            self._stop.wait(EVERY_S)

    def tick(self) -> None:
        """Do what waits, once; runs in a thread. Whatever goes wrong, the next one tries again."""
        try:
            store = self.state.kept.store
            if store.backing is None:
                return
            self.state.metrics.objects_waiting.set(store.backing.outbox.count("send"))
            if store.backing.rests:
                return
            self._say(store, store.work_off(settled_s=_SETTLED_S, stop=self._stop))
            if time.monotonic() - self._trimmed_s > _TRIM_EVERY_S:
                self._trimmed_s = time.monotonic()
                store.trim()
        except Unavailable:
            return  # there is no store yet
        except AssayError as problem:
            if not is_away(problem):
                self._failed(problem.problem)
        except Exception as problem:
            if not is_away(problem):
                log_failure("sending failed", problem)

    def _say(self, store: Store, done: TransferReport | None) -> None:
        if done is None or store.backing is None:
            return
        self.state.metrics.objects_waiting.set(done.waiting)
        if done.files or done.deleted:
            log_event(
                "files sent", files=done.files, size_bytes=done.size_bytes, deleted=done.deleted, waiting=done.waiting
            )
        if done.problems:
            self._failed(done.problems[0], waiting=done.waiting)
        elif self._logged is not None and (done.files or done.deleted or not done.waiting):
            self._logged = None
            log_event("works again", step="send files", where=store.backing.url)

    def _failed(self, problem: Problem, **fields: object) -> None:
        """Tell a problem once, until it is another or over."""
        if self._logged is None or self._logged.code != problem.code:
            log_event("files wait", level=logging.WARNING, because=problem.message, **fields)
        self._logged = problem

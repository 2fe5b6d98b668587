"""Schedules fire: what is due is taken, submitted like any other campaign, and kept with what became of it.

Every server looks every second. Several may look at the same schedules: the store gives each due time to one of them,
and a server that dies over one is replaced by another.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
import anyio.to_thread

from assay.errors import AssayError, UsageError
from assay.place.fleet.protocol import Submission
from assay.plan.schedule import next_times, start_of
from assay.serve.intake.submission import demand_files, keep, plan_submission
from assay.serve.observability import tell, tell_failure
from assay.serve.state import ServerState
from assay.serve.web.problems import RequestProblem, is_away
from assay.store.firings import FiringLostError, FiringObstacles, FiringRecord, Firings, OverlapError
from assay.store.schedules import ScheduleRecord, Schedules, ScheduleTiming, read_schedule

EVERY_S = 1.0
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
        """Look for ever."""
        while True:
            await anyio.to_thread.run_sync(self.tick)
            await anyio.sleep(EVERY_S)

    def tick(self) -> None:
        """Fire what is due; runs in a thread. Whatever goes wrong, the next one tries again."""
        try:
            self._fire_due()
        except Exception as problem:
            if not is_away(problem):
                tell_failure("schedules failed", problem)
            elif not self._away:
                tell("schedules wait", level=logging.WARNING, because="the database is away")
            self._away = is_away(problem)
        else:
            self._away = False

    def fire(self, firing: FiringRecord) -> FiringRecord:
        """Submit the campaign of a firing that was taken, unless something stands in its way; what became of it.

        Raises:
            StoreError: if the database is away; the firing stays taken, and is taken over later.
        """
        firings = self._firings
        try:
            self._submit(firings, firing)
        except FiringLostError:
            tell("firing lost", schedule=firing.schedule, due=_shown(firing))
            return firings.get(firing.id) or firing
        except Exception as problem:
            if is_away(problem):
                raise
            firings.end(firing, "failed", _reason(problem, firing))
        ended = firings.get(firing.id) or firing
        tell(
            "schedule fired",
            schedule=ended.schedule,
            due=_shown(ended),
            outcome=ended.outcome,
            campaign=ended.campaign or "",
            reason=ended.reason,
        )
        return ended

    def _fire_due(self) -> None:
        firings = self._firings
        self._fire_all(firings.take_over(self.server))
        self._fire_all(firings.take_waiting(self.server))
        watched = Schedules(self.state.kept.store.engine, self.state.clock).watched()
        self._begins = {one.id: self._begin(one) for one in watched}
        now = self.state.clock.utc().timestamp()
        for one in watched:
            if self._begins[one.id][1] <= now:
                self._fire_all(firings.take_due(one.id, self.server))

    def _fire_all(self, firings: Iterable[FiringRecord]) -> None:
        for one in firings:
            self.fire(one)

    def _begin(self, one: ScheduleTiming) -> tuple[tuple[float, float], float]:
        """When the next due time of a schedule begins; worked out once for each version of it."""
        version = (one.considered_to, one.changed_at)
        known = self._begins.get(one.id)
        if known is not None and known[0] == version:
            return known
        try:
            schedule = read_schedule(one.section, one.name)
        except AssayError as problem:  # a time zone that is not known here; the others fire all the same
            tell("schedule left out", level=logging.ERROR, schedule=one.id, because=problem.problem.message)
            return version, _NEVER
        due = next_times(schedule, datetime.fromtimestamp(one.considered_to, UTC), 1)
        return version, start_of(schedule, one.name, due[0]).timestamp() if due else _NEVER

    def _submit(self, firings: Firings, firing: FiringRecord) -> None:
        for _ in range(_TRIES):
            record = self._record(firing)
            standing = firings.standing(firing)
            if standing.in_words and not self._may_go_on(firings, firing, record, standing):
                return
            planned = plan_submission(self.state, _of(record), by=record.submitted_by, origin=ORIGIN)
            demand_files(self.state.kept, planned.plan)
            try:
                keep(self.state, planned, also=lambda session, campaign: firings.confirm(session, firing, campaign))
            except OverlapError:
                continue
            return
        firings.end(firing, "skipped", f"another campaign of this schedule began {_TRIES} times while this one did")

    def _record(self, firing: FiringRecord) -> ScheduleRecord:
        try:
            return Schedules(self.state.kept.store.engine, self.state.clock).get(firing.schedule)
        except UsageError:
            raise FiringLostError from None  # it was removed meanwhile

    def _may_go_on(
        self, firings: Firings, firing: FiringRecord, record: ScheduleRecord, standing: FiringObstacles
    ) -> bool:
        """Do as the schedule says about what stands in the way; whether the firing goes on."""
        overlap = record.schedule.overlap
        if overlap == "skip":
            firings.end(firing, "skipped", f"{standing.in_words}; overlap is skip")
        elif overlap == "queue":
            firings.wait(firing, f"had to wait: {standing.in_words}")
        else:
            self._end_others(firings, firing, standing)
        return overlap == "cancel"

    def _end_others(self, firings: Firings, firing: FiringRecord, standing: FiringObstacles) -> None:
        kept = self.state.kept
        firings.replace(standing.before, firing)
        for campaign in standing.campaigns:
            reason = f"the next firing of its schedule, due at {_shown(firing)}, took its place"
            kept.queue.withdraw(kept.control.cancel_campaign(campaign, reason, by=ORIGIN))
        self.state.changed()

    @property
    def _firings(self) -> Firings:
        return Firings(self.state.kept.store.engine, self.state.clock)


def _of(record: ScheduleRecord) -> Submission:
    if record.submission is None:
        raise AssertionError(record.id)  # it was read whole
    return record.submission


def _reason(problem: Exception, firing: FiringRecord) -> str:
    """Why a firing failed, for its history; what is our own mistake goes to the log."""
    if isinstance(problem, RequestProblem):
        return str(problem.detail)
    if isinstance(problem, AssayError):
        return "; ".join(one.message for one in problem.problems[:5])
    tell_failure("firing failed", problem, schedule=firing.schedule)
    return "the server failed on it; its log says where"


def _shown(firing: FiringRecord) -> str:
    return datetime.fromtimestamp(firing.due, UTC).isoformat(timespec="seconds")

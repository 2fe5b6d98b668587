"""What has to happen as time goes by: leases run out, agents fall silent, deadlines pass, campaigns end, alerts open.

Each step is guarded: a database that is away for a while is told once and asked again, and never ends the server.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import anyio.to_thread

from assay.errors import AssayError
from assay.serve.live.notifications import AlertLoop
from assay.serve.observability import count_poisoned, tell, tell_failure
from assay.serve.state import ServerState, ServerStore
from assay.serve.web.problems import is_away

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
    _told: set[str] = field(default_factory=set)
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
        """Tick for ever."""
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
        kept = self.state.kept
        control = kept.control
        until = control.lease_now()  # before it is found out whether time was lost: what is lost later counts then
        self._notice_step(kept)
        if not self._notice_gap(kept):
            return  # leases that nobody could renew must not end
        changed = self._expire(kept, until)
        if self.state.clock.monotonic_s() - self._disturbed_s >= self.state.settings.silent_after_s:
            changed |= self._said("agents fell silent", lambda: control.mark_silent(self.state.settings.silent_after_s))
        changed |= self._said("deadline passed", control.enforce_deadlines)
        changed |= self._said("no agent can take jobs", control.fail_unplaceable)
        changed |= self._said("campaigns ended", control.settle_campaigns)
        if time.monotonic() - self._offered_s > _OFFER_EVERY_S or changed:
            self._step("reconcile the queue", kept.queue.reconcile)
            self._offered_s = time.monotonic()
        self._step("look at alerts", self._alerting.step)
        if changed:
            self.state.dispatcher.nudge()
            self.state.feed.nudge()

    def follow_up(self) -> None:
        """Do at once what a request made possible: end its campaign, offer its jobs; runs in a thread."""
        if not self._step("open the store", self.state.ensure_open):
            return
        kept = self.state.kept
        if self._said("campaigns ended", kept.control.settle_campaigns):
            self.state.feed.nudge()
        if self.state.offers_due:
            self.state.offers_due = False  # before: what comes meanwhile is offered the next time
            self._offer(kept)

    def _offer(self, kept: ServerStore) -> None:
        if not self._step("offer jobs", kept.queue.offer):
            self.state.offers_due = True
        elif kept.queue.is_apart:
            self.state.dispatcher.nudge()

    def _notice_step(self, kept: ServerStore) -> None:
        """After the calendar was set, count silence from now on: leases go by a clock that was not."""
        steps = kept.control.steady.steps
        if steps != self._steps and self._step("follow the clock", kept.control.after_step):
            self._steps = steps
            self._disturbed_s = self.state.clock.monotonic_s()
            self._alerting.listen_again()
            tell("clock was set", level=logging.WARNING)

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
        tell("leases renewed", level=logging.WARNING, because=f"nobody could renew them for {gap_s:.0f} s")
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
        tell("leases expired", jobs=expired[:20], count=len(expired))
        return True

    def _said(self, event: str, step: Callable[[], Collection[object]]) -> bool:
        found = self._found(event, step)
        if found:
            tell(event, which=[str(one) for one in found][:20], count=len(found))
        return bool(found)

    def _found(self, name: str, step: Callable[[], Collection[object]]) -> Collection[object]:
        found: list[object] = []
        self._step(name, lambda: found.extend(step()))
        return found

    def _step(self, name: str, step: Callable[[], object]) -> bool:
        """Do one step; False when it could not be done now."""
        try:
            step()
        except Exception as problem:  # whatever it is, the next tick tries again
            if name not in self._told:
                self._told.add(name)
                self._tell(name, problem)
            return False
        if name in self._told:
            self._told.discard(name)
            tell("works again", step=name)
        return True

    def _tell(self, name: str, problem: Exception) -> None:
        if is_away(problem) and isinstance(problem, AssayError):
            tell("put off", level=logging.WARNING, step=name, because=problem.problem.message)
        else:
            tell_failure("step failed", problem, step=name)

"""Alerts as time goes by: what stays away, what was snoozed, and what could not be told at once.

Every server does this. Whatever two of them find at the same moment is one alert, and is told once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import JsonValue

from assay.alert.evaluate import tell_owed, wake
from assay.alert.periodic import check_agents, check_silence, follow_jobs, note_files
from assay.alert.records import AlertRecord, record_of
from assay.alert.rules import rules_of
from assay.clock import iso
from assay.serve.logs import tell
from assay.serve.state import ServerState
from assay.store.alerts import AlertRules, Alerts
from assay.store.overview import Watched
from assay.store.records import EventRecord

# What only time brings about is looked for this often; the rest at every tick.
LOOK_EVERY_S = 5.0
# After a start, so much of the history of jobs is read again: the server before may have ended in the middle.
_READ_AGAIN = 20_000
# What is written in transactions, and by servers with clocks of their own, may show a little later.
_OVERLAP = timedelta(minutes=1)


@dataclass(slots=True)
class Alerting:
    """Looks at alerts and their rules at every tick of a server."""

    state: ServerState
    _looked_s: float | None = None
    _began: float | None = None
    """When this server began to listen to agents, in seconds since 1970."""
    _event: int | None = None
    """The last line of the history of jobs that was read."""
    _files: str = ""
    """Benchmark files that were handed in before this were read."""
    _announced: dict[str, tuple[float, str]] | None = field(default=None)
    """Alert → when it changed last and to what, as far as listeners know."""

    def step(self) -> None:
        """Do what is due; runs in a thread."""
        store, clock = self.state.kept.store, self.state.clock
        if self._began is None:
            self._began = clock.utc().timestamp()
        wake(store, clock)
        self._follow()
        if self._looked_s is None or time.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._look()
            self._looked_s = time.monotonic()
        tell_owed(store, clock)
        self._announce()

    def listen_again(self) -> None:
        """Count the silence of agents from now on: for a while nobody could be heard, or the clock was set."""
        self._began = self.state.clock.utc().timestamp()

    def _look(self) -> None:
        store, clock = self.state.kept.store, self.state.clock
        begun = iso(clock.utc() - _OVERLAP)
        newest = note_files(store, clock, self._files)
        self._files = min(newest, begun) if newest else begun
        rules = rules_of(AlertRules(store.engine).list())
        check_silence(store, rules, clock)
        check_agents(store, rules, clock, self.state.settings.silent_after_s, self._began or 0.0)

    def _follow(self) -> None:
        """Read on in the history of jobs: those that failed, and those that do so no more."""
        store = self.state.kept.store
        if self._event is None:
            self._event = max(0, Watched(store.engine).newest_event() - _READ_AGAIN)
        while True:
            _, last = follow_jobs(store, None, self.state.clock, self._event)
            if last == self._event:
                return
            self._event = last

    def _announce(self) -> None:
        """Tell the log and everybody who listens what changed, whoever changed it on whatever server."""
        since = (self.state.clock.utc() - _OVERLAP).timestamp()
        found = list(map(record_of, Alerts(self.state.kept.store.engine).changed_since(since)))
        known, self._announced = self._announced, {one.id: (one.changed_at, one.state) for one in found}
        if known is None:  # what was so before this server began is no news
            return
        for one in found:
            if known.get(one.id) != (one.changed_at, one.state):
                self._tell(one)

    def _tell(self, alert: AlertRecord) -> None:
        said: dict[str, JsonValue] = {"alert": alert.id, "state": alert.state, "severity": alert.severity}
        said |= {"benchmark": alert.benchmark, "title": alert.title, "by": alert.by}
        tell("alert changed", alert=alert.id, state=alert.state, title=alert.title, by=alert.by)
        happening = alert.history[-1].happening if alert.history else ""
        self.state.feed.push(EventRecord("", None, "alert", alert.changed_at, {**said, "happening": happening}))

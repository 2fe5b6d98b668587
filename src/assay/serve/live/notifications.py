"""Alerts as time goes by, and their notices on the way to channels: one at a time for each, retried until taken."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
import anyio.to_thread
from pydantic import JsonValue

from assay.alert.evaluate import notify_pending, wake
from assay.alert.ingest import check_agents, check_silence, follow_jobs, note_files
from assay.alert.lifecycle import ACTIVE
from assay.alert.message import NoticeDocument, compose, prepared, read_notice, write_notice
from assay.alert.notify.channels import read_channels, without_secrets
from assay.alert.notify.protocol import Channel, NotifyError
from assay.alert.records import record_of
from assay.alert.rules import rules_of
from assay.clock import iso
from assay.errors import AssayError, StoreError
from assay.serve.observability import log_event, log_failure
from assay.serve.state import ServerState
from assay.serve.web.problems import Unavailable, is_away
from assay.store.alerts import AlertRules, Alerts
from assay.store.notices import Notice, NoticePolicy, Notices
from assay.store.overview import ActivityReader
from assay.store.records import EventRecord
from assay.store.series import SeriesRows

# What only time brings about is looked for this often; the rest at every tick.
POLL_S = 5.0
# After a start, so much of the history of jobs is read again: the server before may have ended in the middle.
_READ_AGAIN = 20_000
# What is written in transactions, and by servers with clocks of their own, may show a little later.
_OVERLAP = timedelta(minutes=1)
EVERY_S = 1.0
_UNCLAIMED_EVERY_S = 60.0
# A channel that failed is left alone for this share of the time that the notice itself waits: others may get through.
_FIRST_HOLD = 0.2
_LONGEST_HOLD_S = 60.0
_END_WITHIN_S = 5.0
# That a notice was sent is written down even if the database is away just then.
_NOTE_AGAIN_S = 1.0
# A picture shows fewer; a change may have been found a while ago.
_MOST_POINTS = 500


@dataclass(slots=True)
class AlertLoop:
    """Looks at alerts and their rules at every tick of a server."""

    state: ServerState
    _polled_s: float | None = None
    _began: float | None = None
    """When this server began to listen to agents, in seconds since 1970."""
    _event: int | None = None
    """The last line of the history of jobs that was read."""
    _files: str = ""
    """Benchmark files that were handed in before this were read."""
    _announced: dict[str, tuple[float, str]] | None = field(default=None)
    """Alert → when it changed last and to what, as far as listeners know."""

    def step(self) -> None:
        store, clock = self.state.kept.store, self.state.clock
        if self._began is None:
            self._began = clock.utc().timestamp()
        wake(store, clock)
        self._follow()
        if self._polled_s is None or time.monotonic() - self._polled_s >= POLL_S:
            self._poll()
            self._polled_s = time.monotonic()
        notify_pending(store, clock)
        self._announce()

    def listen_again(self) -> None:
        """Count the silence of agents from now on: for a while no agent could be heard, or the clock was set."""
        self._began = self.state.clock.utc().timestamp()

    def _poll(self) -> None:
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
            self._event = max(0, ActivityReader(store.engine).newest_event() - _READ_AGAIN)
        while True:
            _, last = follow_jobs(store, None, self.state.clock, self._event)
            if last == self._event:
                return
            self._event = last

    def _announce(self) -> None:
        """Report what changed, on any server, to the log and to all listeners."""
        since = (self.state.clock.utc() - _OVERLAP).timestamp()
        alerts = list(map(record_of, Alerts(self.state.kept.store.engine).changed_since(since)))
        announced, self._announced = (
            self._announced,
            {record.id: (record.changed_at, record.state) for record in alerts},
        )
        if announced is None:  # what was so before this server began is no news
            return
        for alert in alerts:
            if announced.get(alert.id) != (alert.changed_at, alert.state):
                log_event("alert changed", alert=alert.id, state=alert.state, title=alert.title, by=alert.by)
                names = ("state", "severity", "benchmark", "title", "by")
                said: dict[str, JsonValue] = {"alert": alert.id, **{name: getattr(alert, name) for name in names}}
                said["happening"] = alert.history[-1].happening if alert.history else ""
                self.state.feed.push(EventRecord("", None, "alert", alert.changed_at, said))


@dataclass(slots=True)
class NoticeSender:
    """Sends what is in the outbox until it is cancelled."""

    state: ServerState
    channels: Mapping[str, Channel]
    policy: NoticePolicy = field(default_factory=NoticePolicy)
    every_s: float = EVERY_S
    end_within_s: float = _END_WITHIN_S
    """How long the end of the server waits for what is being sent."""
    _working: dict[str, threading.Thread] = field(default_factory=dict)
    _held_until: dict[str, float] = field(default_factory=dict)
    """Channel → when it may be tried again: it failed just now, or asked for a pause."""
    _failures: dict[str, int] = field(default_factory=dict)
    """Channel → tries in a row that failed."""
    _repeated: dict[str, float] = field(default_factory=dict)
    _logged: set[str] = field(default_factory=set)
    _unclaimed_s: float = 0.0
    _closing: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, state: ServerState) -> NoticeSender:
        """The sender of a server, with the channels of its file."""
        path = state.settings.channels
        return cls(state, {} if path is None else read_channels(path))

    async def run(self) -> None:
        try:
            while True:
                await anyio.to_thread.run_sync(self.poll)
                await anyio.sleep(self.every_s)
        finally:
            self._closing.set()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.wait)

    def poll(self) -> None:
        """Start whatever has something to send; runs in a thread. Whatever goes wrong, the next one tries again."""
        try:
            notices = Notices(self.state.kept.store.engine, self.state.clock, self.policy)
            notices.spread(self.channels)
            due = set(notices.due())
            self._find_unclaimed(notices)
        except Exception as problem:
            self._log_once("outbox", problem)
            return
        self._works_again("outbox")
        for name, channel in self.channels.items():
            now_s, every_s, working = time.monotonic(), channel.repeat_s, self._working.get(name)
            again = every_s is not None and now_s - self._repeated.get(name, -every_s) >= every_s
            is_free = (working is None or not working.is_alive()) and self._held_until.get(name, 0.0) <= now_s
            if (name in due or again) and is_free:
                thread = threading.Thread(
                    target=self._work, args=(name, channel, notices, again), name=f"notify {name}", daemon=True
                )
                self._working[name] = thread
                thread.start()

    def wait(self) -> None:
        self._closing.set()
        until = time.monotonic() + self.end_within_s
        for thread in list(self._working.values()):
            thread.join(max(until - time.monotonic(), 0.0))

    # One channel, in a thread of its own

    def _work(self, name: str, channel: Channel, notices: Notices, again: bool) -> None:
        try:
            while not self._closing.is_set() and (taken := notices.take(name)) is not None:
                if not self._send(name, channel, notices, taken):
                    return
            if again and not self._closing.is_set():
                self._repeat(name, channel, notices)
        except Exception as problem:
            self._log_once(f"channel {name}", problem)
            self._hold(name, None)
        else:
            self._works_again(f"channel {name}")

    def _send(self, name: str, channel: Channel, notices: Notices, taken: Notice) -> bool:
        """Send one notice; False when the channel should be left alone for a while."""
        try:
            notice = self._prepare(notices, taken)
        except NotifyError as problem:
            return self._failed(name, notices, taken, None, problem)
        try:
            note = channel.send(compose(taken.key, notice, self.state.settings.shown_url))
        except Exception as problem:
            return self._failed(name, notices, taken, notice, _as_failure(problem, channel))
        self._failures.pop(name, None)
        self._note_sent(notices, taken, note or "")
        log_event("notice sent", channel=name, alert=taken.alert, key=taken.key, tries=taken.attempts, note=note)
        return True

    def _prepare(self, notices: Notices, taken: Notice) -> NoticeDocument:
        """What the message is made of; made whole before the first try, and kept, so that all tries are the same."""
        try:
            notice = read_notice(taken.document, taken.key)
        except AssayError as problem:
            raise NotifyError(f"the notice cannot be read: {problem.problem.message}", retry=False) from None
        if notice.prepared:
            return notice
        try:
            series = SeriesRows(self.state.kept.store.engine)
            whole = prepared(notice, lambda name: series.points(name, _MOST_POINTS))
        except Exception as problem:  # people are notified anyway, without a picture
            log_failure("no picture", problem, alert=taken.alert)
            whole = NoticeDocument(notice.alert, None, prepared=True, done=notice.done)
        notices.keep(taken, write_notice(whole))
        return whole

    def _failed(
        self, name: str, notices: Notices, taken: Notice, notice: NoticeDocument | None, failed: NotifyError
    ) -> bool:
        problem = failed.problem
        done = write_notice(notice, done=failed.done) if notice is not None and failed.done else None
        became = notices.failed(taken, problem.message, retry=failed.retry, after_s=failed.after_s, document=done)
        event = "notice given up" if became == "given-up" else "notice not sent"
        level = logging.ERROR if became == "given-up" else logging.WARNING
        fields = {"channel": name, "alert": taken.alert, "key": taken.key, "tries": taken.attempts}
        advice = {"try": problem.try_} if problem.try_ else {}
        log_event(event, level=level, **fields, because=problem.message, **advice)
        if not failed.retry:  # it is this message that is not wanted; the channel may well take the next one
            return True
        self._hold(name, failed.after_s)
        return False

    def _note_sent(self, notices: Notices, taken: Notice, note: str) -> None:
        until = time.monotonic() + self.policy.lease_s
        while True:
            try:
                notices.sent(taken, note)
            except StoreError:
                if time.monotonic() > until or self._closing.wait(_NOTE_AGAIN_S):
                    raise
            else:
                return

    def _repeat(self, name: str, channel: Channel, notices: Notices) -> None:
        """Say once more what still stands, to a place that forgets."""
        self._repeated[name] = time.monotonic()
        for notice in notices.standing(name, ACTIVE):
            if self._closing.is_set():
                return
            try:
                channel.send(
                    compose(notice.key, read_notice(notice.document, notice.key), self.state.settings.shown_url)
                )
            except NotifyError as problem:
                self._hold(name, problem.after_s)
                raise without_secrets(problem, channel) from None

    # What the channels are like

    def _hold(self, name: str, asked_s: float | None) -> None:
        """Leave a channel alone: longer with each failure in a row, and as long as it asks for."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        first_s = self.policy.first_wait_s * _FIRST_HOLD
        own_s = min(first_s * 2.0 ** min(count - 1, 30), _LONGEST_HOLD_S)
        wait_s = max(own_s, min(asked_s or 0.0, self.policy.longest_asked_s))
        self._held_until[name] = max(self._held_until.get(name, 0.0), time.monotonic() + wait_s)

    def _find_unclaimed(self, notices: Notices) -> None:
        if time.monotonic() - self._unclaimed_s < _UNCLAIMED_EVERY_S and self._unclaimed_s:
            return
        self._unclaimed_s = time.monotonic()
        for name in notices.unclaimed(self.channels):
            if f"unknown {name}" not in self._logged:
                self._logged.add(f"unknown {name}")
                has = ", ".join(sorted(self.channels)) or "none"
                log_event("no such channel here", level=logging.WARNING, channel=name, has=has)
        for notice in notices.give_up_unclaimed(self.channels):
            fields = {"channel": notice.channel, "alert": notice.alert, "key": notice.key, "because": notice.error}
            log_event("notice given up", level=logging.ERROR, **fields)

    def _log_once(self, what: str, problem: Exception) -> None:
        if what in self._logged:
            return
        self._logged.add(what)
        if isinstance(problem, Unavailable) or (isinstance(problem, AssayError) and is_away(problem)):
            log_event("put off", level=logging.WARNING, step=what, because="the database is away")
        elif isinstance(problem, AssayError):
            log_event("put off", level=logging.WARNING, step=what, because=problem.problem.message)
        else:
            log_failure("step failed", problem, step=what)

    def _works_again(self, what: str) -> None:
        if what in self._logged:
            self._logged.discard(what)
            log_event("works again", step=what)


def _as_failure(problem: Exception, channel: Channel) -> NotifyError:
    """Whatever went wrong, as something to be noted; the words of others' errors may hold secrets, and are not kept."""
    if isinstance(problem, NotifyError):
        return without_secrets(problem, channel)
    log_failure("channel failed", problem, kind=channel.kind)
    return NotifyError(f"the channel failed with {type(problem).__name__}")

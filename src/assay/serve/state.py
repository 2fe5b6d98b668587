"""What every request can reach: the store and its parts, the dispatcher, the feed, the metrics."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import anyio.to_thread
from fastapi import Request

from assay.clock import Clock, SteadyClock
from assay.errors import StoreError
from assay.place.leasing import Lease
from assay.series.repository import SeriesStore
from assay.serve.live.dispatch import BeatCollector, Dispatcher, GroupSync, JobQueue
from assay.serve.live.feed import Feed, LoopEvent
from assay.serve.observability import Counts, ServerMetrics, count_states, log_event
from assay.serve.settings import MB, ServerSettings
from assay.serve.web.problems import Unavailable, is_away
from assay.spec.benchmark import Definition
from assay.store.artefacts import Artefacts
from assay.store.catalogue import Catalogue
from assay.store.control import Control
from assay.store.database import WriteAheadLog, ahead_s
from assay.store.fleet.agents import key_hash, wrong_key
from assay.store.listing import Listing
from assay.store.location import store_folder
from assay.store.prices import Prices
from assay.store.schedules import Firings, Schedules
from assay.store.store import Store
from assay.store.tokens import Role, TokenStore

# A token is looked up again after this long, so that a revoked one is soon refused.
_TRUST_TOKEN_S = 5.0
_COUNT_AT_MOST_EVERY_S = 5.0
T = TypeVar("T")
_TOKENS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class ServerStore:
    """The open store and everything that works on it."""

    store: Store
    control: Control
    listing: Listing
    catalogue: Catalogue
    tokens: TokenStore
    artefacts: Artefacts
    schedules: Schedules
    firings: Firings
    series: SeriesStore
    prices: Prices
    queue: JobQueue
    syncing: GroupSync | None
    """What syncs the database before an answer; none where the database does so itself."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, by their token."""

    name: str
    role: Role


@dataclass(slots=True)
class ServerState:
    """One server, from start to end."""

    settings: ServerSettings
    clock: Clock
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    is_open: bool | None = None
    """Everybody is admin; None while that is not known, because the store was not open yet."""
    runs: dict[str, int] = field(default_factory=dict)
    """Campaign → runs of all its jobs, as far as it was asked for."""
    definitions: dict[str, Definition | None] = field(default_factory=dict)
    """Campaign → what its first job measures, as far as it was asked for; none where it can no longer be read."""
    dispatcher: Dispatcher = field(init=False)
    feed: Feed = field(init=False)
    heartbeats: BeatCollector = field(init=False)
    _kept: ServerStore | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, tuple[float, Principal]] = field(default_factory=dict)
    _keys: dict[str, tuple[float, str]] = field(default_factory=dict)
    _counted: tuple[float, Counts] = (0.0, {})
    wake: LoopEvent = field(default_factory=LoopEvent)
    """Rung when something changed that time alone would find later."""
    offers_due: bool = True
    """There may be jobs that have not been offered to the queue."""

    def __post_init__(self) -> None:
        self.is_open = self.settings.open
        self.dispatcher = Dispatcher(lambda: self.kept.queue, is_away, self.metrics.waiting.set)
        self.heartbeats = BeatCollector(lambda: self.kept.control)
        self.feed = Feed(lambda: self.kept.control, is_away, self.metrics.listeners.set)
        self.metrics.watch(self._counts)

    @property
    def folder(self) -> Path:
        return store_folder(self.settings.folder)

    @property
    def kept(self) -> ServerStore:
        """The open store; a request is asked to come back while there is none."""
        if self._kept is None:
            raise Unavailable
        return self._kept

    def ensure_open(self) -> bool:
        """Open the store unless it is open.

        Raises:
            StoreError: if it cannot be opened; code `store` when it may be possible later.
        """
        with self._opening:
            if self._kept is None:
                self._kept = _open(self.settings, self.folder, self.clock)
                if self.settings.token is not None:
                    self._kept.tokens.note_use()
                if self.is_open is None:
                    self.is_open = self.settings.on_loopback and not self._kept.tokens.were_used()
                # While no server was there, no agent could renew its lease.
                renewed = self._kept.control.renew_all()
                self._kept.store.artefacts.sweep()  # what uploads left behind that were cut with their server
                log_event("store open", database=self.settings.database_shown, leases_renewed=renewed)
        return True

    def close(self) -> None:
        with self._opening:
            if self._kept is not None:
                self._kept.store.close()
                self._kept = None

    async def durable(self) -> None:
        """Return when everything that was committed so far is on disk.

        Raises:
            StoreError: `disk` if the disk did not take it.
        """
        if self._kept is not None and self._kept.syncing is not None:
            await self._kept.syncing.wait()

    def changed(self, *, jobs: bool = True) -> None:
        """Wake everybody who waits for something to happen; from any thread."""
        self.offers_due = self.offers_due or jobs
        self.wake.set()
        self.dispatcher.nudge()
        self.feed.nudge()

    def lease_given(self, lease: Lease) -> None:
        self.metrics.leases.inc()
        log_event("lease given", agent=lease.agent, job=lease.job.id, fence=lease.fence)
        self.feed.nudge()

    # Tokens

    async def principal(self, secret: str) -> Principal | None:
        """Whose a token is; None if it is not known, was revoked or has run out."""
        until, principal = self._known.get(_hashed(secret), (0.0, None))
        return principal if until > time.monotonic() else await anyio.to_thread.run_sync(self._check_token, secret)

    def _check_token(self, secret: str) -> Principal | None:
        own = self.settings.token
        if own is not None and hmac.compare_digest(_hashed(secret), _hashed(own.get_secret_value())):
            principal = Principal("settings", "admin")
        else:
            token = self.kept.tokens.verify(secret)
            if token is None:
                return None
            principal = Principal(token.name, token.role)
        _remember(self._known, _hashed(secret), principal)
        return principal

    def forget_tokens(self) -> None:
        """Check every token again: one was revoked."""
        self._known.clear()

    # Keys of agents

    async def check_key(self, agent: str, key: str) -> None:
        """Make sure that a request in the name of an agent is the agent's own.

        Raises:
            UsageError: `agent-key` if it is not.
        """
        until, stored_key = self._keys.get(agent, (0.0, ""))
        if until <= time.monotonic():
            stored_key = await anyio.to_thread.run_sync(self._key_of, agent)
        _compare(agent, stored_key, key)

    def check_key_now(self, agent: str, key: str) -> None:
        """The same, in a thread."""
        until, stored_key = self._keys.get(agent, (0.0, ""))
        _compare(agent, stored_key if until > time.monotonic() else self._key_of(agent), key)

    def _key_of(self, agent: str) -> str:
        key = self.kept.control.key_of(agent)
        _remember(self._keys, agent, key)
        return key

    def forget_key(self, agent: str) -> None:
        """Look the key of an agent up the next time: it enrolled, or was removed."""
        self._keys.pop(agent, None)

    # Metrics

    def _counts(self) -> Counts:
        """Jobs, agents and queues by state; empty while the database is away."""
        at, counted = self._counted
        if counted and time.monotonic() - at < _COUNT_AT_MOST_EVERY_S:
            return counted
        try:
            server_store = self.kept
            counts = {**count_states(server_store.store.engine), "ready": server_store.queue.ready()}
        except (StoreError, Unavailable):  # the other numbers are still true
            return {}
        self._counted = (time.monotonic(), counts)
        return counts


def server_of(request: Request) -> ServerState:
    return cast("ServerState", request.app.state.assay)


async def state_of(request: Request) -> ServerState:
    """The same as a dependency; asynchronous, because others are each sent to a thread."""
    return server_of(request)


def _open(settings: ServerSettings, folder: Path, clock: Clock) -> ServerStore:
    url = settings.database_url.get_secret_value() if settings.database_url else None
    room = None if settings.objects_cache_mb is None else int(settings.objects_cache_mb * MB)
    store = Store(folder, url, objects=settings.objects, cache_bytes=room, prompt=False)
    # Servers that share a database agree on its time, whatever their own calendars say.
    control = Control(store.engine, clock, settings.policy, steady=SteadyClock(clock, ahead_s(store.engine, clock)))
    broker = None
    if settings.redis_url is not None:
        from assay.place.redis_broker import RedisBroker

        broker = RedisBroker(settings.redis_url.get_secret_value(), clock=clock)
    engine = store.engine
    log = WriteAheadLog.of(engine)
    return ServerStore(
        store=store,
        control=control,
        listing=Listing(engine),
        catalogue=Catalogue(engine, clock),
        tokens=TokenStore(engine, clock),
        artefacts=Artefacts(engine, clock),
        schedules=Schedules(engine, clock),
        firings=Firings(engine, clock),
        series=SeriesStore(store, clock),
        prices=Prices(engine, clock),
        queue=JobQueue(control, broker),
        syncing=None if log is None else GroupSync(log),
    )


def _remember(held: dict[str, tuple[float, T]], name: str, value: T) -> None:
    if len(held) > _TOKENS_REMEMBERED:
        held.clear()
    held[name] = (time.monotonic() + _TRUST_TOKEN_S, value)


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _compare(agent: str, known: str, given: str) -> None:
    """One that has no key was enrolled by an agent that does not know of them."""
    if known and not hmac.compare_digest(known, key_hash(given)):
        raise wrong_key(agent)

"""The queue over Redis: streams with consumer groups, and one script so that every step happens whole or not at all.

Redis decides the order and counts the leases; it may lose everything, because the store offers again what is not done.
The memory policy of Redis must be `noeviction`, its default. The script touches keys of many names, so a cluster of
several shards does not serve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

from assay.clock import SYSTEM_CLOCK, Clock
from assay.errors import StoreError, UsageError
from assay.place.leasing import JobClaim, JobOffer

try:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, NoScriptError, RedisError
    from redis.retry import Retry
except ImportError as problem:
    raise UsageError(
        f"the queue over Redis needs a package that is not installed: {problem.name}",
        code="missing-redis",
        try_="pip install 'assay-bench[redis]'",
    ) from None

_SCRIPT = Path(__file__).with_suffix(".lua").read_text(encoding="utf-8")
# Jobs per call of the script: Redis does nothing else meanwhile, some milliseconds.
_AT_ONCE = 500
_HIGHEST_PRIORITY = 1_000_000
_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")


class RedisBroker:
    """Hands out jobs: highest priority first, then the campaign served least, in order of offering inside a campaign.

    Delivery is at least once: what was taken and never acknowledged is given out again under a higher number. Jobs that
    were acknowledged are forgotten; one that has to be measured again is offered again. Safe to use from many threads.
    """

    def __init__(
        self, url: str, *, prefix: str = "assay:", clock: Clock = SYSTEM_CLOCK, answer_s: float = 10.0
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: `redis://[user:password@]host:port/number`, `rediss://…` with TLS, or `unix://path`.
            prefix: begins every key, so that several queues can share a server.
        """
        self.address = _address(url)
        self._secret = unquote(urlsplit(url).password or "")
        self._prefix = prefix
        self._clock = clock
        # A waiting agent asks again this often: a notification lost with a dead agent reaches another one.
        self._longest_sleep_s = answer_s / 2
        self._sha = ""
        self._offered_to = ""
        self._redis = _client(url, answer_s)

    def offer(self, offers: Iterable[JobOffer]) -> int:
        """Queue jobs and return how many entered or moved; one that is known stays, unless its offer changed."""
        now = self._clock.utc().timestamp()
        return sum(
            cast("int", self._do("offer", *(word for offer in some for word in _words(offer, now))))
            for some in _in_parts(offers)
        )

    def take(self, agent: str, queues: Sequence[str], limit: int = 1) -> tuple[JobClaim, ...]:
        """Give an agent the next jobs of the queues that it suits, without waiting."""
        return self._take(agent, queues, limit)[0]

    def wait(self, agent: str, queues: Sequence[str], timeout_s: float) -> tuple[JobClaim, ...]:
        """Give an agent the next job, as soon as there is one or the time is over."""
        until = self._clock.monotonic_s() + timeout_s
        bells = [f"{self._prefix}bell:{queue}" for queue in queues]
        while True:
            taken, due_in_s = self._take(agent, queues, 1)
            left_s = until - self._clock.monotonic_s()
            if taken or left_s <= 0 or not bells:
                return taken
            sleep_s = min(left_s, due_in_s, self._longest_sleep_s)
            self._ask(lambda: self._redis.blpop(bells, max(sleep_s, 0.001)))  # noqa: B023  (called in this iteration)

    def ack(self, *taken: JobClaim) -> tuple[JobClaim, ...]:
        """Forget jobs that were claimed; return those whose number was still the newest."""
        accepted: list[JobClaim] = []
        for some in _in_parts(taken):
            words = (word for lease in some for word in (lease.job, lease.fence, lease.ticket))
            accepted += [some[index] for index in cast("list[int]", self._do("ack", *words))]
        return tuple(accepted)

    def put_back(self, taken: JobClaim, delay_s: float = 0.0) -> bool:
        """Queue a job again, behind the others of its campaign; False if the delivery is no longer the newest."""
        return bool(self._do("put_back", taken.job, taken.fence, taken.ticket, delay_s))

    def withdraw(self, jobs: Iterable[str]) -> frozenset[str]:
        """Forget jobs in whatever state they are; return those that were known."""
        return frozenset(job for some in _in_parts(jobs) for job in cast("list[str]", self._do("withdraw", *some)))

    def reclaim(self, idle_s: float) -> tuple[str, ...]:
        """Queue again what was taken that long ago and never acknowledged; return the jobs."""
        lanes = cast("list[str]", self._ask(lambda: self._redis.hkeys(f"{self._prefix}depth")))
        back: list[str] = []
        for some in _in_parts(lanes):
            jobs = [""] * _AT_ONCE
            while len(jobs) >= _AT_ONCE:
                jobs = cast("list[str]", self._do("reclaim", int(idle_s * 1000), _AT_ONCE, *some))
                back += jobs
        return tuple(back)

    def sizes(self) -> Mapping[str, int]:
        """How many jobs could be taken now, by queue."""
        answer = cast("list[str | int]", self._do("sizes"))
        return {str(queue): int(size) for queue, size in zip(answer[::2], answer[1::2], strict=True)}

    def is_fresh(self) -> bool:
        """Whether Redis was emptied or restarted since the last mark, so that all jobs have to be offered again.

        A start counts even if Redis reads its files back: the last second before a crash may be missing there.
        """
        self._offered_to = self._run_id()
        return self._ask(lambda: self._redis.get(f"{self._prefix}mark")) != self._offered_to

    def mark(self) -> None:
        """Note that all jobs have been offered."""
        # The id from before the offers: a Redis that was restarted in between is fresh again.
        run_id = self._offered_to or self._run_id()
        self._ask(lambda: self._redis.set(f"{self._prefix}mark", run_id))

    def close(self) -> None:
        self._redis.close()

    def _take(self, agent: str, queues: Sequence[str], limit: int) -> tuple[tuple[JobClaim, ...], float]:
        """Jobs, and how many seconds from now the next delayed one is due."""
        if not queues or limit < 1:
            return (), float("inf")
        answer = cast("list[str]", self._do("take", agent, limit, *dict.fromkeys(queues)))
        taken = zip(answer[1::3], answer[2::3], answer[3::3], strict=True)
        due_in_s = float(answer[0]) if answer[0] else float("inf")
        return tuple(JobClaim(job, int(fence), ticket) for job, fence, ticket in taken), due_in_s

    def _run_id(self) -> str:
        """The id that Redis has until it is restarted."""
        facts = self._ask(lambda: self._redis.info("server"))
        return f"run {facts.get('run_id', '')}"

    def _do(self, *words: str | float) -> object:
        """One step of the script, in one round trip."""
        return self._ask(lambda: self._run(words))

    def _run(self, words: tuple[str | float, ...]) -> object:
        try:
            if self._sha:
                return self._redis.evalsha(self._sha, 1, self._prefix, *words)
        except NoScriptError:
            pass  # Redis was restarted
        self._sha = self._redis.script_load(_SCRIPT)
        return self._redis.evalsha(self._sha, 1, self._prefix, *words)

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        try:
            return question()
        except AuthenticationError as problem:
            failure: RedisError = problem
            tip = "check the user and password in the URL of Redis"
        except RedisError as problem:
            failure, tip = problem, "check that Redis runs there and can be reached; the next call reconnects"
        text = str(failure).replace(self._secret, "***") if self._secret else str(failure)
        raise StoreError(f"Redis does not serve the queue: {text}", code="redis", at=self.address, try_=tip)


def _client(url: str, answer_s: float) -> Redis:
    settings: dict[str, Any] = {} if url.startswith("unix:") else {"socket_keepalive": True}
    try:
        return Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=answer_s,
            socket_connect_timeout=min(answer_s, 5.0),
            # A step must not be repeated unasked: the answer may be lost after it was done.
            retry=Retry(NoBackoff(), 0),
            **settings,
        )
    except ValueError:  # its text may hold the password
        raise UsageError(
            f"the URL of Redis has an option that it does not know: {_address(url)}", code="redis-url"
        ) from None


def _words(offer: JobOffer, now: float) -> tuple[str | float, ...]:
    priority = max(-_HIGHEST_PRIORITY, min(_HIGHEST_PRIORITY, offer.priority))
    delay_s = max(0.0, offer.not_before - now)
    return offer.job, offer.queue, offer.campaign, priority, offer.fence, repr(float(offer.not_before)), delay_s


def _in_parts(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Parts that are small enough for one call."""
    rest = iter(items)
    while part := list(islice(rest, _AT_ONCE)):
        yield part


def _address(url: str) -> str:
    """Where Redis is, without user, password and options."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", "unix"):
        message = f"a URL of Redis begins with redis://, rediss:// or unix://, not with {parts.scheme or 'nothing'!r}"
        raise UsageError(message, code="redis-url", try_="redis://127.0.0.1:6379/0")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise UsageError("the port in the URL of Redis is no number up to 65535", code="redis-url") from None
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

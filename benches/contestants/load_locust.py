"""Locust's fast client asks for streamed chat answers, reads event by event, takes the time and counts tokens.

Settings come by the environment: LOAD_TOKENS of an answer, LOAD_REQUESTS in all, LOAD_EACH_S between two requests of a
user (0: at once) and LOAD_REPORT, the file to write.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import perf_counter

import gevent
from locust import FastHttpUser, constant, constant_throughput, events, task
from locust.exception import StopUser

TOKENS = int(os.environ["LOAD_TOKENS"])
REQUESTS = int(os.environ["LOAD_REQUESTS"])
EACH_S = float(os.environ.get("LOAD_EACH_S", "0"))
BODY = {
    "model": "sim",
    "messages": [{"role": "user", "content": "tell me a story about the sea"}],
    "max_tokens": TOKENS,
    "stream": True,
}
counts = {"users": 0, "sent": 0, "ended": 0, "tokens": 0}


class Asking(FastHttpUser):
    """A user that asks, reads the whole answer, and asks again."""

    wait_time = constant_throughput(1 / EACH_S) if EACH_S else constant(0)

    def on_start(self) -> None:
        """At a rate, users begin evenly spread over the time between two requests of one of them."""
        counts["users"] += 1
        gevent.sleep(EACH_S * counts["users"] / self.environment.runner.target_user_count if EACH_S else 0)

    @task
    def ask(self) -> None:
        """One request."""
        if counts["sent"] >= REQUESTS:
            raise StopUser
        counts["sent"] += 1
        begin = perf_counter()
        with self.client.post(
            "/v1/chat/completions", json=BODY, stream=True, catch_response=True, name="whole"
        ) as answer:
            times, tokens = [], 0
            while event := answer.stream.readline(b"\n\n"):
                times.append(perf_counter())
                # A chunk is no token: whoever counts tokens has to read what came.
                if event.startswith(b"data: {"):
                    tokens += any(choice["delta"].get("content") for choice in json.loads(event[6:])["choices"])
            answer.stream.read()
            # Locust itself times a streamed answer up to its headers.
            answer.request_meta["response_time"] = 1000 * (perf_counter() - begin)
            answer.success() if answer.status_code == 200 else answer.failure(str(answer.status_code))
        counts["tokens"] += tokens
        if times:
            self.environment.events.request.fire(
                request_type="POST",
                name="first",
                response_time=1000 * (times[0] - begin),
                response_length=0,
                exception=None,
                context={},
            )
        counts["ended"] += 1
        if counts["ended"] == REQUESTS:
            gevent.spawn(self.environment.runner.quit)


@events.quitting.add_listener
def report(environment, **_: object) -> None:
    """Write what Locust's own statistics say."""
    said = {}
    for (name, _method), entry in environment.stats.entries.items():
        percentiles = {f"p{100 * share:g}": entry.get_response_time_percentile(share) for share in (0.5, 0.99)}
        said[name] = {"requests": entry.num_requests, "failures": entry.num_failures, **percentiles}
    Path(os.environ["LOAD_REPORT"]).write_text(json.dumps(said))

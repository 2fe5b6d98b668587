"""No-op tasks through a bare stream with a consumer group: the least that Redis itself can do with acknowledgement."""

import sys

from queue_tally import Tally
from redis import Redis


def main(url: str, tasks: int, at_once: int) -> None:
    redis = Redis.from_url(url)
    redis.xgroup_create("tasks", "workers", "0", mkstream=True)
    tally = Tally(tasks)
    for _ in range(0, tasks, at_once):
        with redis.pipeline(transaction=False) as sent:
            for _ in range(at_once):
                sent.xadd("tasks", {"task": "nothing"})
            sent.execute()
    tally.enqueued()
    tally.begin()
    while True:
        found = redis.xreadgroup("workers", "worker", {"tasks": ">"}, count=at_once)
        entries = next(iter(found.values()))[0] if isinstance(found, dict) else found[0][1]
        with redis.pipeline(transaction=False) as done:
            for entry in entries:
                done.xack("tasks", "workers", entry[0])
            done.execute()
        tally.done(len(entries))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

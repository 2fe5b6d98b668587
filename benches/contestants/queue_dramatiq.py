"""No-op tasks through Dramatiq: one worker process with its usual eight threads, which read ahead."""

import os
import sys
from threading import Event, Lock

from queue_tally import Tally


def main(url: str, tasks: int, threads: int, prefetch: int) -> None:
    os.environ["dramatiq_queue_prefetch"] = str(prefetch)  # noqa: SIM112  (its name)
    import dramatiq  # reads it when it is imported
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)
    counted = Lock()

    @dramatiq.actor
    def nothing() -> None:
        with counted:
            tally.done()

    broker.client.ping()
    tally = Tally(tasks)
    for _ in range(tasks):
        nothing.send()
    tally.enqueued()
    dramatiq.Worker(broker, worker_threads=threads).start()
    Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

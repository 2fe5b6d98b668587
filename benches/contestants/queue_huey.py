"""No-op tasks through huey: one thread, results off, blocking reads; a task is gone once it is read."""

import sys
from threading import Event

from huey import RedisHuey
from queue_tally import Tally


def main(url: str, tasks: int) -> None:
    huey = RedisHuey("bench", url=url, results=False)

    @huey.task()
    def nothing() -> None:
        tally.done()

    huey.storage.conn.ping()
    tally = Tally(tasks)
    for _ in range(tasks):
        nothing()
    tally.enqueued()
    huey.create_consumer(workers=1, periodic=False, check_worker_health=False).start()
    Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""No-op tasks through Celery: one worker without a pool of children, results off, reading ahead without limit."""

import sys

from celery import Celery
from queue_tally import Tally

SWITCHES = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")


def main(url: str, tasks: int) -> None:
    app = Celery("bench", broker=url)
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=0,
        worker_disable_rate_limits=True,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="nothing")
    def nothing() -> None:
        tally.done()

    with app.connection_for_write() as connection:
        connection.ensure_connection()
    tally = Tally(tasks)
    for _ in range(tasks):
        nothing.delay()
    tally.enqueued()
    app.worker_main(["--quiet", "worker", "--pool", "solo", *SWITCHES])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

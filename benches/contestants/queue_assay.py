"""No-op jobs through our broker: offered, taken under a number, acknowledged if the number is still the newest."""

import sys

from queue_tally import Tally

from assay.place.leasing import JobOffer
from assay.place.redis_broker import RedisBroker


def main(url: str, tasks: int, offered: int, taken: int) -> None:
    broker, queue = RedisBroker(url), "a" * 64
    broker.sizes()  # connects, and loads the script
    tally = Tally(tasks)
    for start in range(0, tasks, offered):
        broker.offer(JobOffer(f"job-{number:08d}", queue, "campaign") for number in range(start, start + offered))
    tally.enqueued()
    tally.begin()
    while True:
        given = broker.take("agent", [queue], taken)
        if len(broker.ack(*given)) != len(given) or not given:
            sys.exit("a job was lost")
        tally.done(len(given))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

"""A fixed amount of arithmetic in some processes at once; says how long it took from their start to the last end."""

import json
import multiprocessing
import sys
from time import perf_counter


def work(steps: int, start, done) -> None:
    start.wait()
    state = 1
    for _ in range(steps):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    done.put(state)


def main(steps: int, processes: int) -> None:
    context = multiprocessing.get_context("fork")
    start, done = context.Barrier(processes + 1), context.SimpleQueue()
    workers = [context.Process(target=work, args=(steps, start, done)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    start.wait()
    begin = perf_counter()
    for _ in workers:
        done.get()
    took_ms = 1000 * (perf_counter() - begin)
    for worker in workers:
        worker.join()
    print(json.dumps({"work_ms": took_ms}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

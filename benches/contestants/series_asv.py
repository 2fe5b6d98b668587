"""Steps by asv's detector: all of them, and those that its page of regressions shows at its default of 5 %."""

import json
import sys
from time import perf_counter

import numpy as np
from asv.step_detect import detect_regressions, detect_steps

THRESHOLD = 0.05


def main(path: str) -> None:
    rows = np.load(path)
    found, shown, seconds = [], [], []
    for row in rows:
        values = row.tolist()
        begin = perf_counter()
        steps = detect_steps(values)
        _, _, jumps = detect_regressions(steps, THRESHOLD)
        seconds.append(perf_counter() - begin)
        found.append([int(step[0]) for step in steps[1:]])
        shown.append([int(jump[1]) for jump in jumps or []])
    print(json.dumps({"found": found, "shown": shown, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1])

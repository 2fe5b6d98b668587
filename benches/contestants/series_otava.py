"""Change points by Apache Otava at its defaults: rows of numbers in a file, places of changes out."""

import json
import sys
from time import perf_counter

import numpy as np
from otava.analysis import compute_change_points
from otava.series import AnalysisOptions


def main(path: str) -> None:
    options = AnalysisOptions()
    rows = np.load(path)
    found, seconds = [], []
    for row in rows:
        values = row.tolist()
        begin = perf_counter()
        points, _ = compute_change_points(
            values,
            window_len=options.window_len,
            max_pvalue=options.max_pvalue,
            min_magnitude=options.min_magnitude,
        )
        seconds.append(perf_counter() - begin)
        found.append([int(point.index) for point in points])
    print(json.dumps({"found": found, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1])

"""How clear a change must look so that chance alone shows it in one of a hundred series: simulated, written as code.

    .venv/bin/python -m benches.series_thresholds [step|span|ramp …] [LENGTH …] > table.txt      (about ten minutes)

The rows go into src/assay/analyse/series/scan.py. What is simulated has no change: normal noise, Student's t
with three degrees of freedom, and noise with a memory of 0.1 to 0.8. The limit grows with the memory that a
series seems to have, and is set so that each law alone keeps its one per cent.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from assay.analyse.series.scan import AT, MEMORY_STEPS, ramp_score, span_score, step_score
from assay.analyse.series.spread import standardised
from assay.analyse.series.whitening import Whitened, evidence_memory
from benches.series_laws import noise

Values = NDArray[np.float64]
# Series per law: where they are short, or of the length that promises are made for, more are cheap or worth it.
SERIES = {10: 6_000, 15: 6_000, 20: 6_000, 30: 6_000, 60: 6_000, 120: 16_000, 250: 4_000, 500: 2_500, 1000: 1_500}
REMEMBERING = ("normal", *(f"AR {memory:g}" for memory in MEMORY_STEPS[1:-1]))
LAWS = (*REMEMBERING, "t3")
SEED = 20_261_115
KINDS = ("step", "span", "ramp")
_MEMORY = 3


def simulate(points: int, count: int, kinds: Collection[str]) -> dict[str, Values]:
    """Per law, one row per series: score of the clearest step, span and ramp, as far as asked for, and memory."""
    weights = np.ones(points)
    out = {}
    for law in LAWS:
        drawn = noise(np.random.default_rng(SEED), law, count, points)
        pieces = (Whitened.of(standardised(values, weights)[0], weights) for values in drawn)
        out[law] = np.array([_seen(piece, kinds) for piece in pieces])
    return out


def _seen(piece: Whitened, kinds: Collection[str]) -> tuple[float, float, float, float]:
    return (
        step_score(piece, newest=True).score if "step" in kinds else -np.inf,
        span_score(piece).score if "span" in kinds else -np.inf,
        ramp_score(piece).score if "ramp" in kinds else -np.inf,
        evidence_memory(piece),
    )


def limits(drawn: dict[str, Values], column: int) -> Values:
    """The limit at each memory: raised where a law exceeds its share, lowered where it stays below, and kept smooth."""
    edges = np.interp(MEMORY_STEPS, [0, 0.2, 0.6, 0.9], [11.0, 12.5, 14.0, 17.0])
    for turn in range(800):
        pace = 0.4 if turn < 300 else 0.08
        over = np.array([_excess(drawn[law], column, edges) for law in REMEMBERING])
        over[0] = max(over[0], _excess(drawn["t3"], column, edges))
        edges[:-1] += 2 * pace * over
        edges[-1] = edges[-2] + (edges[-2] - edges[-4]) / 2
        bend = edges[2:] + edges[:-2] - 2 * edges[1:-1]
        edges[1:-1] += 0.4 * pace * bend
        edges = np.maximum.accumulate(edges)
    # Where no series of the simulation seems to have so little memory, nothing held the limit up.
    least = float(np.quantile(drawn["normal"][:, _MEMORY], 0.05))
    return np.maximum(edges, np.interp(least, MEMORY_STEPS, edges))


def _excess(rows: Values, column: int, edges: Values) -> float:
    share = float((rows[:, column] > np.interp(rows[:, _MEMORY], MEMORY_STEPS, edges)).mean())
    return float(np.log(max(share, AT / 20) / AT))


def scale(drawn: dict[str, Values], column: int, edges: Values) -> float:
    """By how much a score must grow for chance to show it e times less often; the slowest law decides."""
    tails = np.array([0.1, 0.05, 0.02, 0.01, 0.005, 0.0025])
    found = []
    for rows in drawn.values():
        over = rows[:, column] - np.interp(rows[:, _MEMORY], MEMORY_STEPS, edges)
        over = np.where(np.isfinite(over), over, -99.0)
        found.append(-float(np.polyfit(np.log(tails), np.quantile(over, 1 - tails), 1)[0]))
    return max(found)


def main(words: list[str]) -> None:
    kinds = [word for word in words if word in KINDS] or KINDS
    lengths = [int(word) for word in words if word not in KINDS] or SERIES
    for points in lengths:
        # Spans alone have so small a share of the false alarms that a third of the series tells enough.
        drawn = simulate(points, SERIES[points] // (3 if list(kinds) == ["span"] else 1), kinds)
        for column, name in enumerate(KINDS):
            if name not in kinds:
                continue
            if not any(np.isfinite(rows[:, column]).any() for rows in drawn.values()):
                print(f"# {points}: no {name}s")
                continue
            edges = limits(drawn, column)
            row = ", ".join(f"{edge:.2f}" for edge in edges)
            print(f"    {points}: ({row}, {scale(drawn, column, edges):.2f}),  # {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

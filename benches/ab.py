"""What `assay ab` says about two thread counts, about a thing against itself, and how many pairs it asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.analyse.ab import ORDERS, ABDecision, Pair, decide
from assay.analyse.ab.bets import threshold, winnings
from assay.metrics import Better
from benches.page import Page, Table
from benches.servers import workspace

REAL_LEAST, SIMULATED_LEAST = 0.9, 0.95
# The fewest that can tell anything, so that ten tries take minutes.
_PAIRS = 12
_SIZE, _ROWS, _LAYERS = 768, 512, 8
_THREADS = """
benchmark: threads of one model
target: {model: products.onnx, device: cpu, threads: 1}
measure: {probe: off, warmup: 2, until: {at_least: 300ms, at_most: 600ms}}
"""
_LOOP = """
benchmark: a loop
target: {command: [awk, 'BEGIN {for (i = 0; i < 300000; i++) s += i % 7; print s}']}
measure: {probe: off}
"""
Values = NDArray[np.float64]
_Noise = Callable[[np.random.Generator, int], Values]
# Of the fraction by which runs of simulated sides differ.
_SPREAD = 0.02
_LOOKS = 20  # blocks


def bench(*, quick: bool = False) -> Page:
    """Ask about two thread counts, then about equal sides: real ones and simulated ones."""
    with workspace() as folder:
        threads = _threads(folder)
        equal = _equal(folder, 2 if quick else 10)
    tables = [threads, equal, _simulated(20 if quick else 100), _pairs(100 if quick else 1000)]
    return Page("ab", "What `assay ab` tells", _ABOUT, tables)


def _ab(folder: Path, *words: str) -> tuple[dict[str, Any], float]:
    """The document that the command prints, and how long it took."""
    command = [sys.executable, "-m", "assay", "ab", *words, "--format", "json", "--quiet", "--no-control"]
    environment = {**os.environ, "ASSAY_STORE": str(folder / "store")}
    begin = perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), perf_counter() - begin


# Two thread counts


def _threads(folder: Path) -> Table:
    _write_model(folder / "products.onnx")
    (folder / "threads.yaml").write_text(_THREADS)
    found, seconds = _ab(folder, "threads.yaml", "--a", "target.threads=1", "--b", "target.threads=2", "--pairs", "40")
    direct = _direct(folder / "products.onnx")
    agrees = found["answer"] == ("better" if direct < 0 else "worse")
    interval = found["interval"]
    rows = [
        [
            "`assay ab`: 2 threads against 1",
            f"**{found['answer']}**",
            f"{found['change']:+.1%}",
            f"{interval['low']:+.1%} to {interval['high']:+.1%}" if interval else "unknown",
            str(found["pairs"]),
            f"{seconds:.0f} s",
            "pass" if agrees else "**fail**",
        ],
        ["onnxruntime alone, in turn", "", f"{direct:+.1%}", "", "20", "", ""],
    ]
    notes = [
        (
            f"A model of {_LAYERS} products of matrices, {_ROWS} × {_SIZE} by {_SIZE} × {_SIZE}. Latency: lower is "
            "better. Kept if it tells which is better, and says the same direction as a plain loop around "
            "onnxruntime, in one process, one thread count after the other, twenty times."
        ),
        (
            "Which of the two is better depends on what else the cores have to do: see the load average above. A "
            "thread that waits for another one that was put aside loses time."
        ),
    ]
    columns = ["what", "answer", "change of latency", "interval", "pairs", "took", "kept"]
    return Table("Two thread counts of one model", columns, rows, notes)


def _write_model(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    weights = numpy_helper.from_array(np.full((_SIZE, _SIZE), 1 / _SIZE, np.float32), "w")
    nodes = [helper.make_node("MatMul", [f"x{layer}", "w"], [f"x{layer + 1}"]) for layer in range(_LAYERS)]
    first, last = (
        helper.make_tensor_value_info(f"x{layer}", TensorProto.FLOAT, [_ROWS, _SIZE]) for layer in (0, _LAYERS)
    )
    graph = helper.make_graph(nodes, "products", [first], [last], [weights])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def _direct(path: Path) -> float:
    """The change of latency from one to two threads, without assay."""
    import onnxruntime as ort

    sessions = []
    for threads in (1, 2):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        sessions.append(ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
    given = {"x0": np.ones((_ROWS, _SIZE), np.float32)}
    ratios = []
    for _ in range(20):
        one, two = (median(_timed(session, given) for _ in range(3)) for session in sessions)
        ratios.append(two / one)
    return median(ratios) - 1


def _timed(session: Any, given: dict[str, Any]) -> float:
    begin = perf_counter()
    session.run(None, given)
    return perf_counter() - begin


# Equal sides


def _equal(folder: Path, tries: int) -> Table:
    (folder / "loop.yaml").write_text(_LOOP)
    rows, kept = [], 0
    for number in range(tries):
        found, seconds = _ab(folder, "loop.yaml", "--pairs", str(_PAIRS), "--fresh")
        kept += found["answer"] == "cannot tell"
        interval = found["interval"]
        shown = f"{interval['low']:+.1%} to {interval['high']:+.1%}" if interval else "unknown"
        rows.append(
            [
                str(number + 1),
                found["answer"],
                f"{found['change']:+.1%}",
                shown,
                str(found["pairs"]),
                f"{seconds:.0f} s",
            ]
        )
    passed = "pass" if kept >= REAL_LEAST * tries else "**fail**"
    rows.append(["all", f"cannot tell in {kept} of {tries}", "", "", "", passed])
    notes = [
        f"A loop of awk against itself, in real processes, {_PAIRS} pairs each: the fewest that can tell anything.",
    ]
    columns = ["try", "answer", "change", "interval", "pairs", "took"]
    return Table("A against A, measured", columns, rows, notes)


def _remembering(rng: np.random.Generator, runs: int, memory: float) -> Values:
    values = rng.normal(0, 1, runs)
    for index in range(1, runs):
        values[index] += memory * values[index - 1]
    return np.asarray(values * np.sqrt(1 - memory**2))


_NOISES: dict[str, _Noise] = {
    "normal": lambda rng, runs: rng.normal(0, 1, runs),
    "heavy tails (t, 3 degrees of freedom)": lambda rng, runs: rng.standard_t(3, runs),
    "each run remembers the one before (0.6)": lambda rng, runs: _remembering(rng, runs, 0.6),
    "drift over 20 spreads": lambda rng, runs: rng.normal(0, 1, runs) + np.linspace(0, 20, runs),
}


def _simulated(tries: int) -> Table:
    rng = np.random.default_rng(6)
    rows = []
    for name, noise in _NOISES.items():
        kept = sum(_last(_experiment(rng, noise, _LOOKS)).answer == "cannot tell" for _ in range(tries))
        rows.append(
            [
                name,
                f"{kept} of {tries}",
                f"≥ {SIMULATED_LEAST:.0%}",
                "pass" if kept >= SIMULATED_LEAST * tries else "**fail**",
            ]
        )
    notes = [f"Noise of {_SPREAD:.0%}, up to {2 * _LOOKS} pairs, looked at after every block as `--open-ended` does."]
    return Table("A against A, simulated", ["noise", "cannot tell", "target", "kept"], rows, notes)


def _experiment(rng: np.random.Generator, noise: _Noise, blocks: int) -> list[Pair]:
    values = 10 * np.exp(_SPREAD * noise(rng, 4 * blocks)).reshape(-1, 4)
    found = []
    for block, (four, coin) in enumerate(zip(values, rng.integers(0, 2, blocks), strict=True)):
        sides: dict[str, list[float]] = {"A": [], "B": []}
        for letter, value in zip(ORDERS[int(coin)], four, strict=True):
            sides[letter].append(float(value))
        found += [
            Pair(block, (coin == 0) != bool(i), a, b) for i, (a, b) in enumerate(zip(*sides.values(), strict=True))
        ]
    return found


def _told(pairs: Sequence[Pair], better: Better = "lower") -> ABDecision:
    return decide("latency_ms", "ms", better, pairs, smallest=0.01)


def _last(pairs: Sequence[Pair]) -> ABDecision:
    """What is told when it ends: at the first look that can tell, else at the last."""
    for blocks in range(6, len(pairs) // 2):
        told = _told(pairs[: 2 * blocks])
        if told.is_final:
            return told
    return _told(pairs)


# How many more pairs


def _pairs(tries: int) -> Table:
    rng = np.random.default_rng(7)
    rows = [_need(rng, effect, tries) for effect in (0.2, 0.3, 0.5, 0.8)]
    notes = [
        (
            f"Experiments that could not tell after 24 pairs, of {tries} with that true difference (in spreads between "
            "blocks of two pairs); each is then continued until it can tell."
        ),
        "`told within` is the share of them that needed no more than the number that they were told; a half is ideal.",
    ]
    columns = [
        "true difference",
        "could not tell",
        "truly needed, median",
        "said for the true size, median",
        "told within",
        "said for the size seen, median",
        "told within ",
    ]
    return Table("How many more pairs it says, and how many it takes", columns, rows, notes)


def _need(rng: np.random.Generator, effect: float, tries: int) -> list[str]:
    """One line: what was said after twelve blocks, and what it took."""
    begun, most = 12, 1500
    actual, seen, true = [], [], []
    for _ in range(tries):
        values = _SPREAD * rng.normal(effect, 1, most)
        hits = np.flatnonzero(winnings(values) >= threshold())
        first = int(hits[0]) + 1 if hits.size else most
        if first <= begun:
            continue
        # Two pairs of equal size in each block: only their mean counts.
        pairs = [Pair(block // 2, True, 10.0, 10 * float(np.exp(values[block // 2]))) for block in range(2 * begun)]
        told = decide("latency_ms", "ms", "lower", pairs, smallest=float(np.expm1(_SPREAD * effect)))
        actual.append(2 * (first - begun))
        seen.append(told.more_for_seen or 5000)
        true.append(told.more_for_smallest or 5000)
    within = [
        sum(need <= said for need, said in zip(actual, given, strict=True)) / len(actual) for given in (true, seen)
    ]
    return [
        f"{effect:g}",
        str(len(actual)),
        f"{median(actual):.0f}",
        f"{median(true):.0f}",
        f"{within[0]:.0%}",
        f"{median(seen):.0f}",
        f"{within[1]:.0%}",
    ]


_ABOUT = (
    "Which of two thread counts is better; how often equal sides are called different; and whether the number of "
    "further pairs that it names is right."
)

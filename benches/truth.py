"""Whether the median that assay reports is that of a bare `session.run` loop."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial

import numpy as np

from assay.run.contract import Order
from assay.run.inputs import plan_of
from assay.run.load.in_process import single_stream
from assay.run.load.timing import Stopwatch, quiet_collector
from assay.run.targets.onnx import OnnxModel
from assay.spec.load import load
from benches import optimum
from benches.chains import SIZES, Chain, make_chain
from benches.contestants.onnx_bare import timed
from benches.medians import COLUMNS, Medians, Play, play, row
from benches.page import Page, Table
from benches.processes import PeerError, contest, there_and_back
from benches.venvs import peers, versions

BLOCK_S = 0.15
WARMUP = 30  # calls of the bare loops; assay's own warm-up asks for as many at least


def bench(*, quick: bool = False) -> Page:
    """Compare in one process, with the whole tool, and beside peers."""
    chains = [make_chain(about_ms) for about_ms in SIZES]
    tables = [_same_process(chains, 6 if quick else 40), _whole_tool(chains, 2 if quick else 10)]
    tables.append(optimum.compare(2 if quick else 4))
    return Page("truth", "Truth of the reported median", _ABOUT, tables)


def _same_process(chains: Sequence[Chain], pairs: int) -> Table:
    rows = []
    for chain in chains:
        medians = _alternate(chain, pairs)
        rows.append(row(f"{chain.about_ms:g} ms", medians, "**assay**, its loop"))
    notes = [
        (
            f"{pairs} pairs of blocks of about {1000 * BLOCK_S:.0f} ms (at least 5 calls), every second pair in turned "
            "order; the ratio is that of the two medians of a pair."
        ),
        *(f"{chain.about_ms:g} ms is a chain of MatMul, {chain.shape}." for chain in chains),
    ]
    return Table("One process, one session, alternating blocks", COLUMNS, rows, notes)


def _alternate(chain: Chain, pairs: int) -> Medians:
    """Medians of alternating blocks around the very session and inputs that assay made."""
    with tempfile.TemporaryDirectory() as scratch:
        model = OnnxModel(_order(chain, scratch))
        model.load()
        call = model.call()
        session, feeds = call.func.__self__, call.args[1]
        calls = chain.calls(BLOCK_S)
        blocks = {
            "bare": lambda: float(np.median(timed(session, feeds, calls))),
            "ours": partial(_our_block, call, calls),
        }
        for block in blocks.values():
            block()
        medians: Medians = {"bare": [], "**assay**, its loop": []}
        names = dict(zip(blocks, medians, strict=True))
        for name in there_and_back(list(blocks), pairs):
            medians[names[name]].append(blocks[name]())
        model.close()
    return medians


def _our_block(call, calls: int) -> float:
    watch = Stopwatch(calls)
    with single_stream(call) as block, quiet_collector():
        block(watch, calls)
    return float(np.median(watch.durations_ns))


def _order(chain: Chain, scratch: str) -> Order:
    benchmark = {
        "benchmark": "truth",
        "target": {"model": str(chain.model), "device": "cpu", "threads": 1},
        "workload": {"inputs": {"x": {"file": str(chain.values)}}},
    }
    (job,) = plan_of(load(benchmark)).jobs
    return Order(job, 0, scratch, model=str(chain.model))


def _whole_tool(chains: Sequence[Chain], pairs: int) -> Table:
    rows, notes = [], []
    for chain in chains:
        calls = chain.calls(0.6 if chain.about_ms < 10 else 1.0)
        plays = {
            "bare": partial(contest, "onnx_bare", chain.model, max(WARMUP, calls // 10), calls, chain.input),
            "**assay**, `assay.run`": partial(contest, "onnx_assay", chain.model, calls, chain.input),
        }
        if chain.about_ms < 1:
            plays |= _loadgen(chain, calls, notes)
        medians = play(plays, pairs)
        rows += [row(f"{chain.about_ms:g} ms", medians, name) for name in medians if name != "bare"]
    notes.insert(
        0,
        f"{pairs} rounds of fresh processes, every second in turned order; the same model file, input "
        "file, ONNX Runtime settings, ORT_DISABLE_TELEMETRY=1 and number of samples; warm-up is assay's "
        f"own (auto), and a tenth of the calls but at least {WARMUP} for the others.",
    )
    return Table("The whole tool, fresh processes", COLUMNS, rows, notes)


def _loadgen(chain: Chain, calls: int, notes: list[str]) -> dict[str, Play]:
    """LoadGen around the same model, if it is there."""
    try:
        python = peers()
        play_once = partial(contest, "loadgen", "sut", calls, chain.model, chain.values, python=python)
        play_once()
        return {versions(python, "mlcommons-loadgen"): play_once}
    except PeerError as problem:
        notes.append(f"MLCommons LoadGen was not measured: {problem}")
        return {}


_ABOUT = """The median latency that a harness reports, against a bare loop that reads the clock around `session.run`:
CPU, one thread. A ratio of 1 is the truth."""

"""assay and optimum-benchmark against a bare loop, on a model that both can take."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from benches import venvs
from benches.medians import COLUMNS, Play, play, row
from benches.page import Table
from benches.processes import BUILD, PeerError, contest

CALLS, WARMUP = 2000, 200
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TITLE = "Beside optimum-benchmark, fresh processes"


def compare(rounds: int) -> Table:
    """The table, or the reason why there is none."""
    try:
        python = venvs.optimum()
        folder, tokens = _model(python)
        names = venvs.versions(python, "optimum-benchmark", "optimum", "optimum-onnx", "transformers", "torch")
        medians = play(_plays(python, folder, tokens), rounds)
    except PeerError as problem:
        return Table(TITLE, COLUMNS, [["tiny BERT", "", "optimum-benchmark", "not measured", "", str(problem)]])
    rows = [row("tiny BERT", medians, name) for name in medians if name != "bare"]
    return Table(TITLE, COLUMNS, rows, _notes(rounds, tokens, names))


def _model(python: Path) -> tuple[Path, int]:
    folder = BUILD / "bert"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder, int(contest("bert_make", folder, python=python)["tokens"])


def _plays(python: Path, folder: Path, tokens: int) -> dict[str, Play]:
    model = folder / "onnx" / "model.onnx"
    inputs = [f"{name}={folder / name}.npy" for name in INPUTS]
    return {
        "bare": partial(contest, "onnx_bare", model, WARMUP, CALLS, *inputs),
        "**assay**, `assay.run`": partial(contest, "onnx_assay", model, CALLS, *inputs),
        "optimum-benchmark": partial(contest, "bert_optimum", model.parent, WARMUP, CALLS, tokens, python=python),
    }


def _notes(rounds: int, tokens: int, names: str) -> list[str]:
    return [
        (
            f"{rounds} rounds of {CALLS} samples, every second in turned order. A BERT of 2 layers and width 64 with "
            f"random weights, batch 1, {tokens} tokens, exported on this machine; one thread for all. Rounds are few, "
            "so the brackets of the medians are their range."
        ),
        (
            "optimum-benchmark times the forward call of an `ORTModel`, which takes and gives torch tensors: its ratio "
            "holds the cost of that layer too. It is the latency that users of that layer see, not that of the model."
        ),
        (
            f"{names}; launcher `process`, for it advises against `inline`. Its ONNX Runtime backend cannot be "
            "imported with optimum 2, nor the exporter of optimum 1 with torch 2.13, so a table that optimum 2 dropped "
            "is handed to it (`contestants/bert_optimum.py`); nothing that is timed is touched."
        ),
    ]

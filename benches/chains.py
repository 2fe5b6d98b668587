"""ONNX models of a wanted latency: chains of MatMul, as long as it takes on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benches.contestants.onnx_bare import open_session, timed
from benches.processes import BUILD

# Rows and width of one MatMul, by the latency that the chain is to reach. The weights of each chain stay well below
# a last-level cache: at its edge the memory that a process happens to get decides its speed, whoever measures it.
SIZES = {0.1: (8, 128), 2.0: (64, 256), 20.0: (512, 256)}
_PROBE = 8


@dataclass(frozen=True, slots=True)
class Chain:
    """A model file with the values of its one input."""

    about_ms: float
    shape: str
    model: Path
    values: Path

    @property
    def input(self) -> str:
        """The input as contestants take it."""
        return f"x={self.values}"

    def calls(self, seconds: float) -> int:
        """Calls that take about this long, and enough for a median."""
        return max(5, round(1000 * seconds / self.about_ms))


def make_chain(about_ms: float) -> Chain:
    """A chain that takes about this long on one thread here."""
    rows, width = SIZES[about_ms]
    folder = BUILD / "chains"
    folder.mkdir(parents=True, exist_ok=True)
    values = folder / f"{about_ms:g}ms.npy"
    np.save(values, np.random.default_rng(0).standard_normal((rows, width), dtype=np.float32))
    probe_ms = _latency_ms(_write(folder / "probe.onnx", rows, width, _PROBE), values)
    length = max(1, round(_PROBE * about_ms / probe_ms))
    model = _write(folder / f"{about_ms:g}ms.onnx", rows, width, length)
    return Chain(about_ms, f"{length} × [{rows}×{width}]·[{width}×{width}]", model, values)


def _write(path: Path, rows: int, width: int, length: int) -> Path:
    rng = np.random.default_rng(1)
    nodes, weights = [], []
    for step in range(length):
        # Scaled so that values neither grow nor fade to denormal numbers, which are slow.
        weight = rng.standard_normal((width, width), dtype=np.float32) / np.float32(np.sqrt(width))
        weights.append(numpy_helper.from_array(weight, f"w{step}"))
        source, target = f"h{step}" if step else "x", f"h{step + 1}" if step + 1 < length else "y"
        nodes.append(helper.make_node("MatMul", [source, f"w{step}"], [target]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width]) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def _latency_ms(model: Path, values: Path) -> float:
    session, feeds = open_session(str(model)), {"x": np.load(values)}
    timed(session, feeds, 20)
    return float(np.median(timed(session, feeds, 100))) / 1e6

"""A bare `session.run` loop with the settings that assay uses; needs numpy and ONNX Runtime alone.

python onnx_bare.py MODEL WARMUP CALLS NAME=VALUES.npy...
"""

import json
import sys
from time import perf_counter_ns

import numpy as np
import onnxruntime as ort


def open_session(model: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def timed(session: ort.InferenceSession, feeds: dict[str, np.ndarray], calls: int) -> list[int]:
    durations, clock = [0] * calls, perf_counter_ns
    for index in range(calls):
        start = clock()
        session.run(None, feeds)
        durations[index] = clock() - start
    return durations


def main(model: str, warmup: str, calls: str, *inputs: str) -> None:
    session = open_session(model)
    feeds = {name: np.load(path) for name, path in (one.split("=") for one in inputs)}
    timed(session, feeds, int(warmup))
    print(json.dumps({"reported_ns": float(np.median(timed(session, feeds, int(calls))))}))


if __name__ == "__main__":
    main(*sys.argv[1:])

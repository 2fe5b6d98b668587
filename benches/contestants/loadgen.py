"""MLCommons LoadGen, SingleStream: a no-op that completes at once, or an ONNX model on one thread.

python loadgen.py sut|fast CALLS [MODEL INPUT]
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns

import mlperf_loadgen as lg


def nothing() -> None:
    return None


def inference(model: str, values: str):
    import numpy as np
    from onnx_bare import open_session

    session, feeds = open_session(model), {"x": np.load(values)}
    for _ in range(100):
        session.run(None, feeds)
    return lambda: session.run(None, feeds)


def system(kind: str, call):
    """The system under test, by LoadGen's general or its faster constructor."""

    def issue(queries) -> None:
        call()
        lg.QuerySamplesComplete([lg.QuerySampleResponse(query.id, 0, 0) for query in queries])

    def issue_fast(ids, _indices) -> None:
        call()
        lg.QuerySamplesComplete([lg.QuerySampleResponse(id_, 0, 0) for id_ in ids])

    return lg.ConstructFastSUT(issue_fast, nothing) if kind == "fast" else lg.ConstructSUT(issue, nothing)


def settings(calls: int):
    asked = lg.TestSettings()
    asked.scenario, asked.mode = lg.TestScenario.SingleStream, lg.TestMode.PerformanceOnly
    asked.min_query_count = asked.max_query_count = calls
    asked.min_duration_ms = 0
    return asked


def logs(folder: str):
    kept = lg.LogSettings()
    kept.enable_trace = False
    kept.log_output.outdir = folder
    kept.log_output.copy_summary_to_stdout = False
    return kept


def read(summary: str, label: str) -> float:
    return float(re.search(rf"^{re.escape(label)}\s*:\s*([\d.]+)", summary, re.MULTILINE)[1])


def main(kind: str, calls: int, *model: str) -> None:
    sut = system(kind, inference(*model) if model else nothing)
    library = lg.ConstructQSL(1024, 1024, lambda _: None, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        begin = perf_counter_ns()
        lg.StartTestWithLogSettings(sut, library, settings(calls), logs(folder))
        whole_ns = perf_counter_ns() - begin
        summary = Path(folder, "mlperf_log_summary.txt").read_text()
    answer = {
        "reported_ns": read(summary, "50.00 percentile latency (ns)"),
        "wall_ns": 1e9 / read(summary, "QPS w/ loadgen overhead"),
        "whole_ns": whole_ns / calls,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])

"""optimum-benchmark on an exported model: `python bert_optimum.py FOLDER WARMUP CALLS TOKENS`."""

import json
import statistics
import sys

import optimum.pipelines
from optimum.onnxruntime import ORTModelForSequenceClassification

# optimum-benchmark 0.6.0 looks this table up to name a class. optimum 2 has dropped it, and the exporter of
# optimum 1 fails with torch 2.13.
optimum.pipelines.ORT_SUPPORTED_TASKS = {"text-classification": {"class": (ORTModelForSequenceClassification,)}}

from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, ORTConfig, ProcessConfig  # noqa: E402


def config(folder: str, warmup: int, calls: int, tokens: int) -> BenchmarkConfig:
    scenario = InferenceConfig(
        latency=True,
        iterations=calls,
        duration=0,
        warmup_runs=warmup,
        input_shapes={"batch_size": 1, "sequence_length": tokens},
    )
    backend = ORTConfig(
        device="cpu",
        model=folder,
        task="text-classification",
        library="transformers",
        export=False,
        session_options={"intra_op_num_threads": 1},
    )
    return BenchmarkConfig(name="truth", launcher=ProcessConfig(), scenario=scenario, backend=backend)


def main(folder: str, *numbers: str) -> None:
    report = Benchmark.launch(config(folder, *map(int, numbers)))
    print("\n" + json.dumps({"reported_ns": statistics.median(report.forward.latency.values) * 1e9}))


if __name__ == "__main__":
    main(*sys.argv[1:])

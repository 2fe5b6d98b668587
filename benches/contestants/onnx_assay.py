"""The whole tool on one ONNX model: `assay.run` with one run.

python onnx_assay.py MODEL CALLS NAME=VALUES.npy...
"""

import json
import sys
import tempfile

import assay


def main(model: str, calls: str, *inputs: str) -> None:
    benchmark = {
        "benchmark": "truth",
        "target": {"model": model, "device": "cpu", "threads": 1},
        "workload": {"inputs": {name: {"file": path} for name, path in (one.split("=") for one in inputs)}},
        "measure": {"runs": 1, "until": {"samples": int(calls)}},
    }
    with tempfile.TemporaryDirectory() as store:
        job = assay.run(benchmark, store=store, fresh=True).jobs[0]
    if job.state != "done":
        sys.exit(f"the job is {job.state}: {job.runs[0].error if job.runs else 'no run'}")
    latency = job.metrics["latency_ms"]
    answer = {"reported_ns": latency.median * 1e6, "count": latency.count, "warmup": job.runs[0].facts["warmup"]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])

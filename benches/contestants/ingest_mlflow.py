"""Values into MLflow's store in SQLite: `python ingest_mlflow.py FOLDER BATCHES VALUES SEED`."""

import json
import random
import sys
import time

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient


def main(folder, batches, size, seed):
    client = MlflowClient(f"sqlite:///{folder}/mlflow-{seed}.db")
    run = client.create_run(client.create_experiment("values")).info.run_id
    rng, now = random.Random(seed), time.time_ns() // 1_000_000
    metrics = [Metric("latency_ms", rng.lognormvariate(0, 0.1), now, step) for step in range(batches * size)]
    client.log_batch(run, [Metric("warm-up", 1.0, now, 0)])
    begin = time.perf_counter()
    for start in range(0, len(metrics), size):
        client.log_batch(run, metrics[start : start + size])
    seconds = time.perf_counter() - begin
    kept = len(client.get_metric_history(run, "latency_ms"))
    if kept != len(metrics):
        sys.exit(f"{kept} of {len(metrics)} values were kept")
    print(json.dumps({"seconds": seconds, "values": kept}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

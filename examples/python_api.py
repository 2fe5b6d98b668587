"""The same from Python, cell by cell as in a notebook (`# %%` marks the cells for editors that know them).

python examples/python_api.py
"""

# %% A benchmark is a mapping of the same shape as the file.
import assay

benchmark = {
    "benchmark": "squeezenet from Python",
    "target": {"model": "squeezenet", "device": "cpu", "threads": 1},
    "measure": {"runs": 3, "warmup": 20, "until": {"interval": "5%", "at_least": "200ms", "at_most": "500ms"}},
}

# %% Run it. In a notebook, `result` on a line of its own shows tables and pictures.
result = assay.run(benchmark)
print(result)

# %% Every number carries its doubt.
job = result.jobs[0]
latency = job.metrics["latency_ms"]
print(f"\nmedian {latency.median:.2f} {latency.unit}, verdict {job.verdict}")
if latency.interval is not None:
    print(f"another set of runs: {latency.interval.low:.2f} to {latency.interval.high:.2f} {latency.unit}")
for check in job.checks:
    word = {True: "passed", False: "FAILED", None: "unknown"}[check.passed]
    print(f"{word:<8}  {check.name}: {check.detail}")

# %% Every number leads to its samples.
for run in job.runs:
    for samples in result.samples(job.job, run.run_id):
        print(f"run {run.run_id} {samples.phase:<7} {samples.metric}: {len(samples.value)} samples")

"""What starting a job costs: nothing is loaded that the job does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

# Takes the place of a library that takes seconds to import, and remembers who asked for it.
RECORDER = """
import os, sys
with open(os.environ["SEEN_IMPORTS"], "a") as file:
    file.write(__name__ + " in " + " ".join(sys.orig_argv) + "\\n")
"""
SERVICE = {
    "services": {
        "llm": {"command": [sys.executable, "-m", "assay", "sim", "llm", "--port", "{port}"],
                "ready": {"http": "/health", "within": "60s"}}
    },
    "target": {"service": "llm", "api": "openai-chat", "model": "sim"},
    "workload": {"task": "synthetic", "input_tokens": 16, "output_tokens": 4},
    "load": {"concurrency": 2, "requests": 4},
}  # fmt: skip
COMMAND = {"target": {"command": "true"}}


def measured(tmp_path: Path, sections: dict[str, Any], **variables: str) -> dict[str, Any]:
    """The first job's result of `assay run`."""
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"benchmark": "b", "measure": {"runs": 1, "timeout": "60s"}, **sections}))
    words = [sys.executable, "-m", "assay", "run", str(path), "--format", "json", "--fresh", "--fail-on", "never"]
    known = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(words, capture_output=True, text=True, env={**known, **variables}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    job: dict[str, Any] = json.loads(done.stdout)["jobs"][0]
    return job


@pytest.mark.parametrize("sections", [COMMAND, SERVICE], ids=["command", "service"])
def test_a_job_that_needs_no_framework_imports_none(tmp_path: Path, sections: dict[str, Any]) -> None:
    site, seen = tmp_path / "site", tmp_path / "seen"
    for name in ("torch", "transformers", "tensorflow", "jax"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(RECORDER)
        (site / name / "version.py").write_text("cuda = '12.4'\n")
        told = site / f"{name}-9.9.0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9.0\n")
    job = measured(tmp_path, sections, PYTHONPATH=str(site), SEEN_IMPORTS=str(seen))
    assert job["state"] == "done"
    assert job["environment"]["packages"]["torch"] == "9.9.0", "it was there to be imported"
    assert not seen.exists(), seen.read_text()


THREADS = {
    "target": {
        # More than a pipe holds, so that every thread of the run is there when they are counted.
        "command": "yes '' | head -c 300000; grep Threads /proc/$PPID/status; echo variable: ${OPENBLAS_NUM_THREADS-0}",
        "shell": True,
        "metrics": [{"name": "threads", "pattern": r"Threads:\s+(\d+)"},
                    {"name": "variable", "pattern": r"variable: (\d+)"}],
    }
}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="the number of threads is read from /proc")
def test_no_pool_of_threads_is_started_for_a_job_that_computes_elsewhere(tmp_path: Path) -> None:
    # A library for matrices starts a thread for each core when it is loaded, and all of them spin for a while.
    plain = measured(tmp_path, THREADS)["metrics"]
    asked = measured(tmp_path, THREADS, OPENBLAS_NUM_THREADS="1")["metrics"]
    many = measured(tmp_path, THREADS, OPENBLAS_NUM_THREADS="2")["metrics"]
    assert plain["threads"]["median"] == asked["threads"]["median"]
    assert plain["variable"]["median"] == 0, "the program sees the environment as it is"
    assert (asked["variable"]["median"], many["variable"]["median"]) == (1, 2), "and what the user set"

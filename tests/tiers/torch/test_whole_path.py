"""From a file to a result, with every process in between: `assay run` on language models and programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[3]
SHORT = ("--set", "measure.runs=1", "--set", "measure.warmup=1", "--set", "measure.until={samples: 3}")


def assay(folder, *arguments):
    command = [sys.executable, "-m", "assay", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)


def results(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["jobs"]


def test_the_example_measures_speed_and_quality(llama, tmp_path):
    shutil.copy(ROOT / "examples" / "transformers.yaml", tmp_path)
    less = (
        "--set",
        f"target.model={llama}",
        "--set",
        "workload.output_tokens=6",
        "--set",
        "target.threads=1",
        "--set",
        "workload.items=1",
    )
    done = assay(tmp_path, "run", "transformers.yaml", "--quiet", "--format", "json", *SHORT, *less)
    jobs = results(done)
    assert [job["point"]["workload.batch"] for job in jobs] == [1, 4]
    for job in jobs:
        metrics = job["metrics"]
        assert metrics["prefill_ms"]["count"] == 3
        assert metrics["decode_ms"]["count"] == 15
        assert metrics["output_tokens"]["median"] == 6
        assert 0 <= metrics["rouge_l"]["median"] <= 1
        (run,) = job["runs"]
        assert run["device"]["used"] == "cpu"
        assert "outputs.jsonl.gz" in run["files"]
        assert set(run["phases"]) >= {"prepare", "load", "first", "warmup", "measure", "score", "cleanup"}
        assert run["facts"]["model"]["size_bytes"] > 1000


def test_an_exported_program(tmp_path):
    batch = torch.export.Dim("batch", min=1, max=16)
    program = torch.export.export(torch.nn.Linear(8, 8).eval(), (torch.ones(2, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "line.pt2")
    (tmp_path / "b.yaml").write_text(
        "benchmark: a program\ntarget: {model: line.pt2, runtime: torch, threads: 1}\nworkload: {batch: 4}\n"
    )
    (job,) = results(assay(tmp_path, "run", "b.yaml", "--quiet", "--format", "json", *SHORT))
    assert job["metrics"]["latency_ms"]["count"] == 3
    assert job["runs"][0]["facts"]["inputs"][0]["shape"] == [4, 8]


def test_an_embedding(llama, tmp_path):
    document = {
        "benchmark": "vectors",
        "target": {"model": str(llama), "runtime": "transformers", "use": "embed"},
        "workload": {"batch": 2},
    }
    (tmp_path / "b.json").write_text(json.dumps(document))
    (job,) = results(assay(tmp_path, "run", "b.json", "--quiet", "--format", "json", *SHORT))
    assert job["metrics"]["input_tokens_per_s"]["median"] > 0


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "model"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "model"),
    ],
)
def test_a_bad_folder_is_a_failed_job_with_a_reason(llama, tmp_path, spoil, code):
    spoil(shutil.copytree(llama, tmp_path / "bad"))
    (tmp_path / "b.yaml").write_text("benchmark: bad\ntarget: {model: bad, runtime: transformers}\n")
    done = assay(tmp_path, "run", "b.yaml", "--quiet", "--format", "json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["jobs"][0]["runs"][0]["error"]["code"] == code

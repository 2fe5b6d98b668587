"""`assay import`, and recipes of others that are run as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import called
from tests.support.slurm_cluster import SlurmCluster

from assay.spec.load import load

RECIPE = {
    "job": {
        "name": "ollama_inference_job",
        "infrastructure": {"partition": "gpu", "account": "p200981", "nodes": 1, "mem_gb": 64, "time": "00:15:00"},
        "service": {"type": "inference", "model": "llama2", "precision": "fp16", "n_clients": 2,
                    "n_requests_per_client": 5},
    }
}  # fmt: skip
# The simulator speaks Ollama's protocol, so that it can stand in for it.
WORDS = (sys.executable, "-m", "assay", "sim", "llm", "--host", "{host}", "--port", "{port}", "--model", "llama2",
         "--ttft", "20ms", "--itl", "2ms", "--tokens", "16")  # fmt: skip
SIMULATOR = f"services.ollama={json.dumps({'command': WORDS, 'ready': {'http': '/api/tags', 'within': '60s'}})}"


def assay(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return called(*arguments, cwd=folder)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "assay", "run", *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=170)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE, indent=2))
    return tmp_path


def test_a_recipe_becomes_a_file_that_says_what_was_left_out(folder: Path) -> None:
    done = assay(folder, "import", "recipe.json", "--out", "bench.yaml", "--set", "monitoring=false")
    assert done.returncode == 0, done.stderr
    assert "note    recipe.json is a team9 recipe" in done.stdout
    text = (folder / "bench.yaml").read_text()
    assert '# job.service.precision is "fp16"' in text
    loaded = load(folder / "bench.yaml")
    assert loaded.source.notes == ()  # it is a benchmark now
    assert loaded.benchmark.monitoring is False
    assert loaded.benchmark.load.concurrency == 2
    again = assay(folder, "import", "recipe.json", "--out", "bench.yaml")
    assert (again.returncode, "error[exists]" in again.stderr) == (2, True)
    assert assay(folder, "import", "recipe.json", "--out", "bench.yaml", "--force").returncode == 0


def test_what_is_printed_is_the_file_alone(folder: Path) -> None:
    done = assay(folder, "import", "recipe.json", "--from", "team9")
    assert done.returncode == 0
    (folder / "printed.yaml").write_text(done.stdout)
    assert load(folder / "printed.yaml").benchmark.benchmark == "ollama_inference_job"
    assert "note    job.service.precision" in done.stderr
    assert assay(folder, "import", "recipe.json", "--out", "bench.json").returncode == 0
    assert load(folder / "bench.json").benchmark == load(folder / "printed.yaml").benchmark


@pytest.mark.parametrize(
    ("name", "text", "arguments", "words"),
    [
        ("b.yaml", "benchmark: b\ntarget: {command: echo}\n", (), "is a benchmark file already"),
        ("x.json", '{"hello": 1}', (), "is no document of a tool that is known"),
        ("x.json", '{"hello": 1}', ("--from", "teem9"), "did you mean team9?"),
        ("x.json", '{"job": {"service": {"n_clients": 0}}}', (), "job.service.n_clients: must be a whole number"),
        ("x.json", '{"job": {"service": {}}}', ("--out", "bench.txt"), "error[suffix]"),
        ("x.json", '{"job": {"service": {}}}', ("--set", "load.concurency=1"), "concurrency"),
    ],
)
def test_what_cannot_be_imported_is_said(
    tmp_path: Path, name: str, text: str, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / name).write_text(text)
    done = assay(tmp_path, "import", name, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_validate_and_plan_say_that_it_was_imported(folder: Path) -> None:
    done = assay(folder, "validate", "recipe.json")
    assert "note    recipe.json is a team9 recipe, imported as a benchmark" in done.stdout
    assert done.stdout.endswith("recipe.json: valid, 1 job\n")
    planned = assay(folder, "plan", "recipe.json", "--format", "json", "--set", "place.engine=local")
    assert "recipe.json is a team9 recipe" in planned.stderr
    assert json.loads(planned.stdout)["jobs"]


@pytest.mark.live
def test_a_recipe_runs_as_it_is_with_the_simulator_in_place_of_ollama(folder: Path) -> None:
    here = ("--set", "place.engine=local", "--set", "monitoring=false", "--set", "measure.runs=1")
    done = run(folder, "recipe.json", "--set", SIMULATOR, *here, "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note      recipe.json is a team9 recipe, imported as a benchmark" in done.stderr
    measured(folder)


def measured(folder: Path) -> dict[str, Any]:
    """The one job of the campaign: ten requests of two clients, and what the simulator was told."""
    (document,) = (folder / "out").glob("*.json")
    (job,) = json.loads(document.read_text())["jobs"]
    run = job["runs"][0]
    assert job["state"] == "done"
    assert run["facts"]["load"]["asked_concurrency"] == 2
    assert job["metrics"]["ttft_ms"]["count"] == 10
    assert job["metrics"]["ttft_ms"]["median"] == pytest.approx(20, abs=15)
    assert job["metrics"]["error_rate"]["median"] == 0
    return dict(job)


@pytest.mark.live
def test_a_recipe_runs_on_a_cluster_with_the_simulator_in_place_of_ollama(folder: Path, slurm: SlurmCluster) -> None:
    here = (
        "--set",
        "place.slurm.partition=debug",
        "--set",
        "measure.runs=1",
        "--set",
        "place.slurm.clients={count: 1, partition: debug, memory: 300MiB, time: 5m}",
    )
    done = run(folder, "recipe.json", "--set", SIMULATOR, *here, "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recipe.json is a team9 recipe, imported as a benchmark" in done.stderr
    job = measured(folder)
    told = job["environment"]["slurm"]
    assert told["state"] == "COMPLETED"
    assert told["services"]["ollama"]["node"] in slurm.nodes
    assert job["runs"][0]["facts"]["monitoring"]  # theirs watches where nobody says --no-monitoring
    assert slurm.queued() == []

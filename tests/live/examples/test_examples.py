"""Every file of examples/ is run, shortened, and gives what it says."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.kube.cluster import KubeCluster
from tests.support.model_server import servers_python
from tests.support.simulated import llm_server

from assay.engines.kubernetes.objects import plan as pods
from assay.engines.slurm.plan import group
from assay.run.inputs import plan_of
from assay.spec.load import load

pytestmark = pytest.mark.live

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
Record = dict[str, Any]
FILES = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".yaml", ".toml", ".json"))
ONCE = ("--set", "measure.runs=1")
SHORT = (*ONCE, "--set", "measure.warmup=none", "--set", "measure.until={samples: 5}")
BRIEF = (*ONCE, "--set", "measure.warmup=none", "--set", "load.duration=500ms")
PROBE = (*ONCE, "--set", "measure.warmup=none", "--set", "load.search={lowest: 10, highest: 40, probe: 1s, probes: 2}")
TWO = (*ONCE, "--set", "workload.items=2", "--set", "workload.output_tokens=12", "--set", "load.requests=2")
# How each example is shortened that is no model file.
LESS = {
    "program.yaml": ONCE,
    "device-cpu.yaml": (*ONCE, "--set", "target={device: cpu, tests: [fp32], shapes: [64], each: 20ms}"),
    "endpoint.yaml": BRIEF,
    "rate-search.yaml": PROBE,
    "smollm2.yaml": TWO,
    "vector-service.yaml": (*SHORT, "--set", "workload.corpus.vectors=200"),
}
# Need PyTorch, which has an environment of its own (tests/tiers/torch), or a GPU (scripts/device_check.sh).
ELSEWHERE = {"transformers.yaml", "device-gpu.yaml"}
# Go to a Slurm cluster; the last needs Ollama and a GPU, and is only planned.
CLUSTER = {"slurm-array.yaml", "slurm-service.yaml", "slurm-ollama.yaml"}
# Go to Kubernetes; the second needs PyTorch and GPUs, and is only planned.
PODS = {"kubernetes.yaml", "kubernetes-torchrun.yaml"}
HERE = [path for path in FILES if path.name not in ELSEWHERE | CLUSTER | PODS]
# Their services are programs of `.venv-servers`.
SERVERS = {"smollm2.yaml", "vector-service.yaml"}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("ASSAY_CACHE", str(cache))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    return tmp_path


def assay(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["assay", *arguments], cwd=folder, capture_output=True, text=True, timeout=120)


def test_no_example_is_forgotten() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == {"train.py", "python_api.py", "serve_smollm2.py"}  # the last is the service of smollm2.yaml
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == scripts | {path.name for path in FILES}


@contextmanager
def surroundings(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ...]]:
    """What an example needs beside it, and what to set so that it finds it."""
    if name in SERVERS:
        programs = servers_python().parent
        monkeypatch.setenv("PATH", os.pathsep.join((str(programs), os.environ["PATH"])))
        monkeypatch.setenv("VIRTUAL_ENV", str(programs.parent))
    if name != "endpoint.yaml":
        yield ()
        return
    with llm_server(ttft_ms=50, itl_ms=10, tokens=32) as sim:
        yield "--set", f"target.endpoint={sim.url}/v1"


@pytest.mark.parametrize("path", HERE, ids=lambda path: path.name)
def test_an_example_measures_every_job(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = len(plan_of(load(path)).jobs)
    with surroundings(path.name, monkeypatch) as there:
        less = LESS.get(path.name, SHORT)
        done = assay(folder, "run", f"examples/{path.name}", "--quiet", "--out", "out", *less, *there)
    assert done.returncode == 0, done.stdout + done.stderr
    (document,) = (folder / "out").glob("*.json")
    record = json.loads(document.read_text())
    assert [job["state"] for job in record["jobs"]] == ["done"] * jobs
    assert all(job["metrics"] for job in record["jobs"])
    SAYS.get(path.name, lambda _: None)(record)
    (table,) = (folder / "out").glob("*_results.csv")
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["Status"] for row in rows] == ["Complete"] * jobs
    assert "</html>" in next((folder / "out").glob("*.html")).read_text()


def _program(record: Record) -> None:
    metrics = record["jobs"][0]["metrics"]
    assert metrics["rows_per_s"]["median"] > 1000  # by a pattern
    assert metrics["accuracy{fold=0}"]["median"] > 0.9  # by a pattern with context; it really learns
    assert metrics["accuracy{fold=1}"]["median"] > 0.9
    assert 0 < metrics["loss"]["median"] < 0.3  # by emit


def _objective(record: Record) -> None:
    assert [gate["passed"] for gate in record["jobs"][0]["gates"]] == [True, True, True]


def _offline(record: Record) -> None:
    assert record["jobs"][0]["runs"][0]["facts"]["load"] == {"scenario": "offline", "streams": 2, "items_per_call": 4}


def _endpoint(record: Record) -> None:
    for job, users in zip(record["jobs"], (1, 8), strict=True):
        facts = job["runs"][0]["facts"]
        assert job["metrics"]["ttft_ms"]["median"] == pytest.approx(50, abs=15)  # what the simulator was told
        assert job["metrics"]["itl_ms"]["median"] == pytest.approx(10, abs=2)
        assert facts["load"]["asked_concurrency"] == users
        assert facts["tokens"]["output"]["source"] == "server usage"
        assert facts["goodput"]["judged_by"] == ["ttft_ms.p90", "itl_ms.p90"]


def _rate_search(record: Record) -> None:
    run = record["jobs"][0]["runs"][0]
    assert run["facts"]["search"]["probes"]  # a second at each rate is too short to promise a capacity
    assert run["metrics"]["start_to_ready_s"] > 0


def _smollm2(record: Record) -> None:
    job = record["jobs"][0]
    assert job["metrics"]["itl_ms"]["median"] > 0
    assert 0 < job["metrics"]["rouge_l"]["mean"] < 1  # a real model says something about the articles
    assert "outputs.jsonl.gz" in job["runs"][0]["files"]


def _vector_search(record: Record) -> None:
    recalls = [job["metrics"]["recall"]["mean"] for job in record["jobs"]]
    assert recalls == sorted(recalls)  # more effort, more of the true neighbours
    assert recalls[-1] > 0.9


def _vector_service(record: Record) -> None:
    assert all(job["metrics"]["recall"]["mean"] > 0.8 for job in record["jobs"])


SAYS = {
    "program.yaml": _program,
    "objective.json": _objective,
    "offline.yaml": _offline,
    "endpoint.yaml": _endpoint,
    "rate-search.yaml": _rate_search,
    "smollm2.yaml": _smollm2,
    "vector-search.yaml": _vector_search,
    "vector-service.yaml": _vector_service,
}


@pytest.mark.parametrize("name", sorted(CLUSTER))
def test_an_example_for_a_cluster_can_be_submitted(name: str) -> None:
    loaded = load(EXAMPLES / name)
    made = group(plan_of(loaded).jobs, loaded.benchmark)
    kinds = {"slurm-array.yaml": ["array"], "slurm-service.yaml": ["services"], "slurm-ollama.yaml": ["services"] * 4}
    assert [one.kind for one in made] == kinds[name]


@pytest.mark.parametrize(
    ("name", "less"),
    [
        ("slurm-array.yaml", (*SHORT, "--set", "matrix={workload.batch: [1, 8]}")),
        ("slurm-service.yaml", (*BRIEF, "--set", "monitoring=false")),
    ],
)
@pytest.mark.usefixtures("slurm", "folder")
def test_an_example_for_a_cluster_runs_on_one(name: str, less: tuple[str, ...], folder: Path) -> None:
    jobs = {"slurm-array.yaml": 2, "slurm-service.yaml": 4}[name]
    done = assay(folder, "run", f"examples/{name}", "--quiet", "--out", "out", *less)
    assert done.returncode == 0, done.stdout + done.stderr
    (document,) = (folder / "out").glob("*.json")
    record = json.loads(document.read_text())
    measured = [job for job in record["jobs"] if "slurm" in job["environment"]]
    assert len(measured) == jobs
    assert {job["state"] for job in record["jobs"]} == {"done"}
    nodes = {job["environment"]["slurm"]["node"] for job in measured}
    assert nodes <= {"n1", "n2", "n3", "n4", "n5", "n6"}


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("kubernetes.yaml", [("point", 2, 1)]),
        ("kubernetes-torchrun.yaml", [("ranks", 2, 8), ("ranks", 4, 8), ("ranks", 8, 8)]),
    ],
)
def test_an_example_for_kubernetes_can_be_submitted(name: str, shapes: list[tuple[str, int, int]]) -> None:
    loaded = load(EXAMPLES / name)
    made = pods.group(plan_of(loaded).jobs, loaded.benchmark)
    assert [(one.kind, one.members, one.slots) for one in made] == shapes


def test_an_example_for_kubernetes_runs_there(kube: KubeCluster, folder: Path) -> None:
    image = load(EXAMPLES / "kubernetes.yaml").benchmark.place.kubernetes.image  # type: ignore[union-attr]
    kube.kubelet.images[str(image)] = ["true"]
    done = assay(folder, "run", "examples/kubernetes.yaml", "--quiet", "--out", "out", *BRIEF)
    assert done.returncode == 0, done.stdout + done.stderr
    (document,) = (folder / "out").glob("*.json")
    record = json.loads(document.read_text())
    assert {job["state"] for job in record["jobs"]} == {"done"}
    measured = [job["environment"]["kubernetes"] for job in record["jobs"] if "kubernetes" in job["environment"]]
    assert len({one["node"] for one in measured}) == 2, "clients have nodes of their own"
    assert {one["limit_cpus"] for one in measured} == {1}
    assert {one["services"]["llm"]["limit_cpus"] for one in measured} == {2}
    assert not kube.pods()


def test_the_training_runs_without_assay_watching(folder: Path) -> None:
    done = subprocess.run(
        ["python", "examples/train.py", "--epochs", "3"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["loss"] > 0


def test_the_python_example_runs(folder: Path) -> None:
    done = subprocess.run(["python", "examples/python_api.py"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "run 2 measure latency_ms" in done.stdout

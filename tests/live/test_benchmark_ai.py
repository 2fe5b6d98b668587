"""Samples of Benchmark AI's format, run as they are: a process in place of each container."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port

FIXTURES = Path(__file__).parents[1] / "fixtures" / "benchmark_ai"
HERE = ("--set", "place.engine=local", "--set", "target.image=null", "--set", "measure.runs=2")

pytestmark = pytest.mark.live


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(FIXTURES, tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))


def assay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay", *words], cwd=folder, capture_output=True, text=True, timeout=120
    )


def run(folder: Path, name: str, *settings: str) -> dict[str, Any]:
    """The one job of a descriptor, measured on this machine."""
    done = assay(folder, "run", name, *HERE, *settings, "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name} is a Benchmark AI descriptor, imported as a benchmark" in done.stderr
    (document,) = (folder / "out").glob("*.json")
    (job,) = json.loads(document.read_text())["jobs"]
    assert job["state"] == "done"
    return dict(job)


def median(job: dict[str, Any], metric: str) -> float:
    return float(job["metrics"][metric]["median"])


def test_hello_world(folder: Path) -> None:
    job = run(folder, "hello-world.toml")
    # Patterns read numbers with exponents, and the client library's numbers came through the pipe.
    assert median(job, "train_loss") == pytest.approx((1e-5 + 1e-6) / 2)
    assert median(job, "accuracy") == pytest.approx(0.65)
    assert median(job, "throughput") == pytest.approx(101.5)
    facts = job["runs"][0]["facts"]
    assert facts["command"] == ["python3", "hello_world.py", "--steps", "4", "--greeting", "hello"]
    assert "bad_emit_lines" not in facts


def test_scheduled(folder: Path) -> None:
    done = assay(folder, "run", "scheduled.toml", *HERE, "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "schedule is kept with the campaign" in done.stderr
    assert "assay schedules add FILE --set place.engine=fleet" in done.stderr
    (document,) = (folder / "out").glob("*.json")
    (job,) = json.loads(document.read_text())["jobs"]
    assert median(job, "train_loss") > 0


@pytest.fixture
def models(folder: Path) -> Iterator[str]:
    """A server of files beside the descriptor."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def served(folder: Path, models: str) -> None:
    """Put addresses of this machine into the descriptor."""
    path = folder / "inference.toml"
    text = path.read_text().replace("https://models.example", models)
    path.write_text(text.replace("8080", str(free_port())).replace("8081", str(free_port())))


@pytest.mark.quiet
def test_inference(folder: Path, models: str) -> None:
    served(folder, models)
    job = run(folder, "inference.toml", "--set", "services.server.image=null")
    assert 0 < median(job, "response_time") < 5
    first = job["runs"][0]
    assert first["sample_counts"]["response_time"] == 20
    assert first["sample_counts"]["requests_2xx"] == 20  # from the server's own log
    assert first["metrics"]["start_to_ready_s"] > 0
    (fetched,) = first["facts"]["fetched"]["services.server"]
    assert (fetched["path"], fetched["checked"]) == ("/models/doubling.json", "md5")


def test_inference_with_a_wrong_model_is_not_measured(folder: Path, models: str) -> None:
    served(folder, models)
    (folder / "doubling.json").write_text('{"factor": 3}')
    done = assay(folder, "run", "inference.toml", *HERE, "--set", "services.server.image=null")
    assert done.returncode == 3
    assert "error[checksum]" in done.stdout
    assert "6decd7ab78362fb7e13d5c38cd50580e was asked for" in " ".join(done.stdout.split())


def test_script_mode(folder: Path) -> None:
    job = run(folder, "script-mode.toml", "--set", "target.code=scripts")
    assert median(job, "answer") == 6
    told = job["runs"][0]["facts"]["code"]
    assert (told["name"], told["files"], len(told["sha256"])) == ("scripts", 2, 64)


def test_changed_code_is_another_job(folder: Path) -> None:
    def digest() -> str:
        done = assay(folder, "plan", "script-mode.toml", "--set", "target.code=scripts", "--format", "json")
        return str(json.loads(done.stdout)["jobs"][0]["digest"])

    before = digest()
    assert digest() == before
    (folder / "scripts" / "words.txt").write_text("other words")
    assert digest() != before


def test_code_that_nobody_named_is_requested(folder: Path) -> None:
    done = assay(folder, "run", "script-mode.toml", *HERE)
    assert done.returncode == 2
    assert "code is not set" in done.stderr


def test_horovod_is_planned_and_says_what_differs(folder: Path) -> None:
    done = assay(folder, "plan", "horovod.toml")
    assert done.returncode == 0, done.stderr
    assert "Benchmark AI ran the command once" in done.stdout + done.stderr


def test_a_descriptor_becomes_a_file(folder: Path) -> None:
    done = assay(folder, "import", "inference.toml", "--out", "bench.yaml")
    assert done.returncode == 0, done.stderr
    assert "readiness_probe.initial_delay_seconds is 1" in (folder / "bench.yaml").read_text()
    checked = assay(folder, "validate", "bench.yaml")
    assert checked.stdout == "bench.yaml: valid, 1 job\n"

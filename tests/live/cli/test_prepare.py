"""`assay prepare`: what a benchmark needs is fetched once, with checksums, and a look tells what is missing."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.unit.run.services.test_apptainer import STAND_IN, told
from typer.testing import CliRunner

from assay.cli.main import app


@pytest.fixture
def apptainer(tmp_path, monkeypatch):
    """A stand-in for Apptainer, the only runtime that is found, and empty caches."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "apptainer").write_text(STAND_IN.format(python=sys.executable))
    (folder / "apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ASSAY_IMAGES", raising=False)
    monkeypatch.setenv("ASSAY_RUNTIME", "")
    return folder / "apptainer"


def prepared(file, *words: str):
    said = CliRunner().invoke(app, ["prepare", str(file), "--format", "json", *words])
    assert said.exception is None or isinstance(said.exception, SystemExit), said.exception
    return said.exit_code, {item["name"]: item for item in json.loads(said.stdout)}


def benchmark(tmp_path, **more):
    service = {
        "image": "docker://vllm/vllm:1",
        "command": "serve {port}",
        "mounts": {"models": "/models"},
        "ready": {"http": "/"},
    }
    document = {
        "benchmark": "chat",
        "services": {"llm": service},
        "target": {"service": "llm", "api": "openai-chat", "model": "m"},
        "workload": {"task": "prompts", "file": "prompts.jsonl"},
        **more,
    }
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(document))
    return file


def test_a_look_reports_what_is_missing_and_fetches_nothing(apptainer, tmp_path):
    code, items = prepared(benchmark(tmp_path), "--check")
    assert code == 1
    assert {name: item["state"] for name, item in items.items()} == {
        "docker://vllm/vllm:1": "missing",
        "prompts.jsonl": "missing",
        "models": "missing",
    }
    assert not (tmp_path / "cache").exists()
    assert not apptainer.with_name("log.jsonl").exists()
    said = CliRunner().invoke(app, ["prepare", str(tmp_path / "bench.json"), "--check"])
    assert "3 of 3 missing" in said.stdout


def test_what_is_fetched_is_kept_by_its_digest_and_found_again(apptainer, tmp_path):
    file = benchmark(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    (tmp_path / "models").mkdir()
    (tmp_path / "models/weights").write_bytes(b"0" * 1000)
    code, items = prepared(file)
    assert code == 0
    image = items["docker://vllm/vllm:1"]
    content = b"the image of docker://vllm/vllm:1"
    assert (image["state"], image["sha256"], image["size_bytes"]) == (
        "fetched",
        hashlib.sha256(content).hexdigest(),
        len(content),
    )
    assert image["path"] == str(tmp_path / f"cache/images/apptainer/{image['sha256']}.sif")
    assert items["prompts.jsonl"]["sha256"] == hashlib.sha256((tmp_path / "prompts.jsonl").read_bytes()).hexdigest()
    assert items["models"]["size_bytes"] == 1000
    assert len(items["models"]["sha256"]) == 64
    code, again = prepared(file, "--check")
    assert (code, again["docker://vllm/vllm:1"]["state"]) == (0, "there")
    code, again = prepared(file)
    assert (code, again["docker://vllm/vllm:1"]["state"]) == (0, "there")
    assert len([words for words in told(apptainer) if words[0] == "pull"]) == 1


def test_a_damaged_image_is_reported_and_fetched_again(apptainer, tmp_path):
    file = benchmark(tmp_path, workload={})
    (tmp_path / "models").mkdir()
    (tmp_path / "models/weights").touch()
    _, items = prepared(file)
    (tmp_path / items["docker://vllm/vllm:1"]["path"]).write_bytes(b"x" * items["docker://vllm/vllm:1"]["size_bytes"])
    code, looked = prepared(file, "--check")
    assert (code, looked["docker://vllm/vllm:1"]["note"]) == (1, "apptainer; the kept file is damaged")
    code, again = prepared(file)
    assert (code, again["docker://vllm/vllm:1"]["state"]) == (0, "fetched")


def test_one_failure_stops_no_other(apptainer, tmp_path):
    file = benchmark(
        tmp_path,
        workload={},
        services={
            "one": {"image": "docker://nowhere:1", "command": "a {port}", "ready": {"http": "/"}},
            "llm": {"image": "docker://here:1", "command": "a {port}", "ready": {"http": "/"}},
            "bare": {"image": "docker://unused:1", "command": "a {port}", "container": "none"},
        },
    )
    code, items = prepared(file)
    assert code == 3
    assert {name: item["state"] for name, item in items.items()} == {
        "docker://nowhere:1": "failed",
        "docker://here:1": "fetched",
    }
    assert "manifest unknown" in items["docker://nowhere:1"]["note"]


def test_models_of_all_points_are_fetched_and_found_without_the_network(apptainer, tmp_path, monkeypatch):
    from assay.run.models.sources import materialise

    monkeypatch.setenv("ASSAY_MODEL_HOSTS", "127.0.0.1")
    web = tmp_path / "web"
    web.mkdir()
    shutil.copy(materialise("squeezenet", tmp_path / "built"), web / "model.onnx")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(web)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/model.onnx"
    document = {"benchmark": "m", "target": {"model": url}, "matrix": {"target.model": [url, "shufflenet"]}}
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(document))
    code, items = prepared(file, "--check")
    assert (code, items[url]["state"], items["shufflenet"]["state"]) == (1, "missing", "there")
    code, items = prepared(file)
    server.shutdown()
    server.server_close()
    assert (code, items[url]["state"]) == (0, "fetched"), items[url]
    assert items[url]["sha256"] == hashlib.sha256((web / "model.onnx").read_bytes()).hexdigest()
    code, items = prepared(file, "--check")
    assert (code, items[url]["state"]) == (0, "there")


def test_a_benchmark_that_needs_nothing_says_so(apptainer, tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"benchmark": "c", "target": {"command": "true"}}))
    said = CliRunner().invoke(app, ["prepare", str(file)])
    assert (said.exit_code, said.stdout.startswith("nothing to prepare")) == (0, True)

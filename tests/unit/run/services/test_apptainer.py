"""Apptainer by a stand-in: an executable that notes its exact command line and runs the command without a container.

No Apptainer ran here. What these tests show is that the command lines are right, that images are pulled once, and that
a service started this way gets its variables, is reached and is ended.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from tests.unit.run.services.conftest import LISTEN, await_gone

from assay.errors import MeasureError
from assay.run.services import started
from assay.run.services.containers import image_cache
from assay.run.services.containers.runtimes import APPTAINER
from assay.spec.benchmark import Service

STAND_IN = """#!{python}
import json, os, pathlib, sys, time
words = sys.argv[1:]
log = pathlib.Path(__file__).with_name("log.jsonl")
with log.open("a") as file:
    file.write(json.dumps(words) + "\\n")
if words[0] == "--version":
    print("apptainer version 1.4.1")
elif words[0] == "pull":
    if "nowhere" in words[-1]:
        sys.exit("FATAL: While making image from oci registry: manifest unknown")
    time.sleep(0.3)
    pathlib.Path(words[2]).write_text("the image of " + words[-1])
else:
    rest = words[1:]
    while rest[0].startswith("--"):
        rest = rest[2:] if rest[0] in ("--bind", "--pwd") else rest[1:]
    prefix = "APPTAINERENV_"
    inside = {{key[len(prefix):]: value for key, value in os.environ.items() if key.startswith(prefix)}}
    assert pathlib.Path(rest[0]).is_file(), "only files are run"
    os.execve(rest[1], rest[1:], inside)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "apptainer"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("ASSAY_IMAGES", str(tmp_path / "images"))
    return program


def told(program: Path) -> list[list[str]]:
    return [json.loads(line) for line in program.with_name("log.jsonl").read_text().splitlines()]


def test_a_service_is_pulled_once_run_and_ended(stand_in, tmp_path, scratch, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sesame-1234")
    (tmp_path / "models").mkdir()
    script = tmp_path / "serve.py"
    script.write_text(
        "import json, os; json.dump(dict(os.environ), open('env.json', 'w'))\n" + LISTEN + "server.serve_forever()"
    )
    web = Service(
        image="docker://vllm/vllm-openai:v1",
        container="apptainer",
        command=(sys.executable, str(script), "--port", "{port}"),
        mounts={"models": "/models"},
        env={"KEY": "${env:MODEL_KEY}"},
        needs={"gpus": 1},
        ready={"http": "/", "within": 120.0},
    )
    for turn in range(2):
        with started({"web": web}, tmp_path, scratch) as running:
            one = running["web"]
            with urllib.request.urlopen(one.base_url, timeout=60) as answer:
                assert answer.read() == b"fine"
        await_gone(one.pid)
        calls = told(stand_in)
        pulls = [words for words in calls if words[0] == "pull"]
        assert len(pulls) == 1, f"turn {turn}: the second start finds it"
    (image,) = (tmp_path / "images/apptainer").glob("*.sif")
    assert pulls[0][:2] == ["pull", "--force"]
    assert pulls[0][3] == "docker://vllm/vllm-openai:v1"
    assert calls[-1] == [
        "exec",
        "--cleanenv",
        "--writable-tmpfs",
        "--nv",
        "--bind",
        f"{tmp_path / 'models'}:/models",
        str(image),
        sys.executable,
        str(script),
        "--port",
        str(one.port),
    ]
    assert one.facts["image_digest"] == f"sha256:{image.stem}" == image_cache.file_digest(image, again=True)
    assert (one.facts["image_asked"], one.how) == ("docker://vllm/vllm-openai:v1", "apptainer")
    env = json.loads((tmp_path / "env.json").read_text())
    assert (env["KEY"], env["PORT"], env["HOST"]) == ("sesame-1234", str(one.port), "127.0.0.1")


def test_of_many_who_ask_at_once_one_pulls(stand_in, tmp_path):
    images: list[image_cache.Image] = []
    ask = lambda: images.append(APPTAINER.keep(str(stand_in), "docker://x:1", tmp_path / "images", 120.0))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({image.path for image in images}) == 1
    assert len(images) == 5
    assert sum(image.fresh for image in images) == 1
    assert len([words for words in told(stand_in) if words[0] == "pull"]) == 1


def test_an_image_that_cannot_be_pulled_says_why(stand_in, tmp_path):
    with pytest.raises(MeasureError, match="manifest unknown") as caught:
        APPTAINER.keep(str(stand_in), "docker://nowhere:1", tmp_path / "images", 120.0)
    assert caught.value.problem.code == "image"
    assert "assay prepare" in caught.value.problem.try_
    assert image_cache.find(tmp_path / "images", "apptainer", "docker://nowhere:1") is None


def test_a_damaged_image_is_found_out(stand_in, tmp_path):
    image = APPTAINER.keep(str(stand_in), "docker://x:1@sha256:abc", tmp_path / "images", 120.0)
    assert image.facts == {"image_digest": "sha256:abc"}
    assert image_cache.is_whole(image)
    image.path.write_text("x" * image.size_bytes)
    assert not image_cache.is_whole(image)
    image.path.write_text("cut")
    assert image_cache.find(tmp_path / "images", "apptainer", "docker://x:1@sha256:abc") is None, (
        "its size tells already"
    )

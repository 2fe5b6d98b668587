"""Samples of Benchmark AI's format on a cluster of the tests: each program in a container of its own image."""

from __future__ import annotations

import shutil
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.live.kubernetes.conftest import QUICK, Followed, Site
from tests.support.kube.cluster import IMAGE
from tests.support.ports import free_port

from assay.analyse.records import MultiRunJobResult
from assay.spec.importers.benchmark_ai import imported

FIXTURES = Path(__file__).parents[2] / "fixtures" / "benchmark_ai"
THEIRS = "assay/benchmark-ai-fixtures:1"
TYPE = {"node.kubernetes.io/instance-type": "t3.small"}

pytestmark = pytest.mark.live


@pytest.fixture
def folder(site: Site) -> Path:
    """The working folder of their image; nodes of the type that the samples ask for can fetch it."""
    made = shutil.copytree(FIXTURES, site.folder / "image", ignore=shutil.ignore_patterns("__pycache__"))
    site.kube.kubelet.images[THEIRS] = ["true"]
    site.kube.kubelet.folders[THEIRS] = made
    for name in ("n1", "n2"):
        site.kube.objects.change("nodes", "", name, lambda one: one["metadata"]["labels"].update(TYPE))
    return made


@pytest.fixture
def models(folder: Path) -> Iterator[str]:
    """A server of files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def document(name: str, **replaced: str) -> dict[str, Any]:
    """A descriptor as a benchmark, with an image for the pods and other words for some of its own."""
    text = (FIXTURES / name).read_text()
    for old, new in replaced.items():
        text = text.replace({"port": "8080", "models": "https://models.example"}[old], new)
    made: dict[str, Any] = imported(tomllib.loads(text)).document
    made["place"]["kubernetes"]["image"] = IMAGE
    return {**made, "measure": QUICK}


def ended(followed: Followed) -> MultiRunJobResult:
    job = followed.job()
    assert job.state == "done", followed.said.getvalue()
    return job


@pytest.mark.parametrize("name", ["hello-world.toml", "scheduled.toml"])
def test_a_program_in_its_own_image(site: Site, folder: Path, name: str) -> None:
    job = ended(site.run(document(name)))
    assert job.metrics["train_loss"].median > 0
    assert job.metrics["throughput"].count >= 2  # by the pipe, from one container to the other
    told = job.environment["kubernetes"]
    assert told["node"] in ("n1", "n2")
    assert told["program"]["image"] == THEIRS
    assert job.runs[0].facts["container"]["runtime"] == "kubernetes"
    assert "cpu_s" in job.runs[0].absent
    assert site.kube.api.left() == []


def test_a_client_and_a_server_whose_model_is_fetched(site: Site, folder: Path, models: str) -> None:
    followed = site.run(document("inference.toml", models=models, port=str(free_port())))
    job = ended(followed)
    assert job.runs[0].sample_counts["response_time"] == 20
    assert "the service server is ready on" in followed.said.getvalue()
    assert "model loaded" in site.file(job.job, "service-server.out")
    assert "cannot be read where the command runs" in job.runs[0].absent["requests_2xx"]
    assert site.kube.api.left() == []


def test_a_model_with_another_checksum_is_not_served(site: Site, folder: Path, models: str) -> None:
    (folder / "doubling.json").write_text('{"factor": 3}')
    job = site.run(document("inference.toml", models=models, port=str(free_port()))).job()
    assert job.state == "failed"
    assert job.error is not None
    assert "6decd7ab78362fb7e13d5c38cd50580e was asked for" in job.error.message
    assert site.kube.api.left() == []


def test_code_that_travels(site: Site, folder: Path) -> None:
    shutil.move(folder / "scripts", site.folder / "scripts")  # beside the file, and not in the image
    made = document("script-mode.toml")
    made["target"]["code"] = "scripts"
    job = ended(site.run(made))
    assert job.metrics["answer"].median == 6
    assert job.runs[0].facts["code"]["files"] == 2
    assert site.kube.api.left() == []


def test_pods_that_stand_by_do_so_in_the_image_of_the_program(site: Site, folder: Path) -> None:
    made = document("horovod.toml")
    del made["needs"], made["target"]["fetch"]
    made["target"] |= {"command": ["/bin/sh", "-c", "cat stood-by; echo 'Img/sec: 3'"]}
    options = made["place"]["kubernetes"]
    options |= {"node_selector": TYPE, "privileged": False}
    options["distributed"] |= {"ranks": 1, "others": "/bin/sh -c 'echo yes >stood-by; exec sleep 600'"}
    job = ended(site.run(made))
    assert job.metrics["images_s"].median == 3
    assert (folder / "stood-by").read_text() == "yes\n"
    assert job.environment["kubernetes"]["pods"] == 2
    assert site.kube.api.left() == []

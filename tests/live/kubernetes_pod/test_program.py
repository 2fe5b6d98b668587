"""A program with an image of its own runs in the container beside: its words, its folder, its end."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.engines.kubernetes.pod.context import PodContext
from assay.engines.kubernetes.pod.task import beside, to_start
from assay.folders import cache_folder
from assay.plan.job import Job
from assay.run.services.containers import find_runtime
from assay.run.services.containers.sidecar import WAITING
from assay.spec.benchmark import Definition

BOXED = {"image": "team/own:1", "command": "true"}


def inside(folder: Path, **target: str) -> PodContext:
    definition = Definition.model_validate({"target": {"command": "true", **target}})
    return PodContext(folder / "job", folder / "work", Job("b", "d", 0, definition))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(os.environ)
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


def test_a_program_of_our_own_image_changes_nothing(tmp_path: Path) -> None:
    pod = inside(tmp_path)
    with beside(pod):
        assert not pod.work.exists()
        assert to_start(["sshd", "-D"], pod) == (["sshd", "-D"], dict(os.environ))


def test_what_is_made_for_a_run_lies_where_both_see_it(tmp_path: Path) -> None:
    pod = inside(tmp_path, **BOXED)
    with beside(pod):
        assert Path(tempfile.gettempdir()).is_relative_to(pod.work)
        assert cache_folder().is_relative_to(pod.work)
        assert find_runtime("podman", "").kind == "kubernetes"  # whatever a file asks for, nothing else is there
    assert (pod.work / "program" / "over").exists()


def test_a_command_runs_where_the_program_does_and_ends_with_it(tmp_path: Path) -> None:
    pod, image = inside(tmp_path, **BOXED), tmp_path / "image"
    image.mkdir()
    (tmp_path / "program.sh").write_text(WAITING)
    with beside(pod):
        environ = {**os.environ, "ASSAY_POD_WORK": str(pod.work)}
        waiting = subprocess.Popen(["/bin/sh", str(tmp_path / "program.sh")], cwd=image, env=environ)
        words, variables = to_start(["/bin/sh", "-c", "pwd; echo said >left; exit 7"], pod)
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, f"{image}\n")
    assert (image / "left").read_text() == "said\n"
    assert waiting.wait(60) == 0  # it ends with the one who measures
